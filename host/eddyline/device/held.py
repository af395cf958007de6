"""What the host remembers of tuples that a device may still name in a result."""

import numpy as np

from eddyline.clock import earlier
from eddyline.errors import DeviceError
from eddyline.plan import Window

__all__ = ["Held"]


class Held:
    """The tuples of one side that can still be in a result, from sequence number ``base`` on.

    Parameters
    ----------
    window : Window
        How long they can be in a result.
    where : str
        What holds them in the device, for messages.
    fields : tuple of (name, type)
        What is remembered of each beside its ``id`` and ``time``.
    """

    def __init__(self, window: Window, where: str, fields: tuple[tuple[str, str], ...] = ()):
        self.window = window
        self.where = where
        self.base = 0
        self.held = np.empty(0, np.dtype([("id", "<u4"), ("time", "<i8"), *fields]))

    @property
    def count(self) -> int:
        return self.base + len(self.held)

    def window_starts(self, stops: np.ndarray, now: np.ndarray) -> np.ndarray:
        """Return, for arrivals that see the first ``stops`` tuples, where their window starts."""
        if self.window.kind == "rows":
            return np.maximum(stops - self.window.size, 0)
        if self.window.kind == "time":
            return self.base + np.searchsorted(self.held["time"], earlier(now, self.window.size))
        return np.zeros_like(stops)

    def first_young(self, now: int) -> int:
        """Return where the window starts for an arrival at this time, behind all tuples."""
        stop = np.array([self.count])
        return int(self.window_starts(stop, np.array([now]))[0])

    def append(self, records: np.ndarray) -> None:
        """Add tuples to a side of which nothing more is remembered than ``id`` and ``time``."""
        new = np.empty(len(records), self.held.dtype)
        new["id"], new["time"] = records["id"], records["time"]
        self.held = np.concatenate([self.held, new])

    def places(self, numbers: np.ndarray, *, bits: int) -> np.ndarray:
        """Find tuples by their sequence numbers, of which only the low bits are given."""
        places = (numbers.astype(np.int64) - self.base) & ((1 << bits) - 1)
        if places.max(initial=-1) >= len(self.held):
            wrong = int(numbers[int(np.argmax(places))])
            raise DeviceError(
                f"the device found a pair of tuple {wrong}, which is not in its {self.where}"
            )
        return places

    def forget(self, keep_from: int) -> None:
        if keep_from > self.base:
            self.held = self.held[keep_from - self.base :]
            self.base = keep_from
