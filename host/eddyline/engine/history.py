"""The recent tuples of one side as columns, for engines that scan them."""

import numpy as np

from eddyline.clock import earlier
from eddyline.plan import Layout, Window

__all__ = ["History", "window_starts"]

EVERY_BIT = (1 << 64) - 1


class History:
    """Words, validity, ids and times of one side, by sequence number.

    Words of up to 32 bits are kept in ``narrow``, wider ones in ``wide``, one row per word; the
    tuple with sequence number ``n`` is at index ``n - self.base``. Old tuples are dropped when
    room is needed, so appending costs O(1) per tuple. ``common`` are validity bits that every
    tuple kept here has.
    """

    def __init__(self, layout: Layout, window: Window):
        self.window = window
        self.places = _places(layout)
        banks = [bank for bank, _ in self.places]
        self._names = [word.name for word in layout.words]
        self._capacity = 1024
        self.narrow = np.zeros((max(1, banks.count(0)), self._capacity), np.uint32)
        self.wide = np.zeros((max(1, banks.count(1)), self._capacity), np.uint64)
        self.valid = np.zeros(self._capacity, np.uint64)
        self.ids = np.zeros(self._capacity, np.uint32)
        self.times = np.zeros(self._capacity, np.int64)
        self.common = np.uint64(EVERY_BIT)
        self.base = 0
        self.count = 0

    def append(self, records: np.ndarray, *, keep_from: int) -> None:
        """Add tuples; those below sequence number ``keep_from`` may be dropped."""
        self._make_room(len(records), keep_from)
        start = self.count - self.base
        stop = start + len(records)
        for name, (bank, row) in zip(self._names, self.places, strict=True):
            (self.wide if bank else self.narrow)[row, start:stop] = records[name]
        self.valid[start:stop] = records["valid"]
        self.common &= np.bitwise_and.reduce(records["valid"], initial=EVERY_BIT)
        self.ids[start:stop] = records["id"]
        self.times[start:stop] = records["time"]
        self.count += len(records)

    def window_starts(self, stops: np.ndarray, now: np.ndarray) -> np.ndarray:
        """Return, for arrivals that see the first ``stops`` tuples, where their window starts."""
        live = self.times[: self.count - self.base]
        return window_starts(self.window, live, self.base, stops, now)

    def _make_room(self, more: int, keep_from: int) -> None:
        kept = self.count - keep_from
        if self.count - self.base + more <= self._capacity:
            return
        while 2 * (kept + more) > self._capacity:
            self._capacity *= 2
        skip = keep_from - self.base
        for name in ("narrow", "wide", "valid", "ids", "times"):
            old = getattr(self, name)
            new = np.zeros((*old.shape[:-1], self._capacity), old.dtype)
            new[..., :kept] = old[..., skip : skip + kept]
            setattr(self, name, new)
        self.base = keep_from
        self.common = np.bitwise_and.reduce(self.valid[:kept], initial=EVERY_BIT)


def window_starts(
    window: Window, times: np.ndarray, base: int, stops: np.ndarray, now: np.ndarray
) -> np.ndarray:
    """Return where the window of each arrival starts, as a sequence number.

    Parameters
    ----------
    window : Window
        Of the other side.
    times : array
        Times of the other side's tuples.
    base : int
        Sequence number of the first of these; what comes before it is too old for all arrivals.
    stops : array
        Tuples that came before each arrival.
    now : array
        Times of the arrivals.
    """
    if window.kind == "rows":
        return np.maximum(stops - window.size, 0)
    if window.kind == "time":
        first = np.searchsorted(times, earlier(now, window.size), "left")
        return np.minimum(base + first, stops)
    return np.zeros_like(stops)


def _places(layout: Layout) -> list[tuple[int, int]]:
    """Return bank and row of each word."""
    used = [0, 0]
    places = []
    for word in layout.words:
        bank = int(word.width > 32)
        places.append((bank, used[bank]))
        used[bank] += 1
    return places
