"""Arrivals cut into blocks, with the windows already judged.

A round is a run of consecutive arrivals with at most one block of either side. Blocks of one round
enter the chain together and blocks of different rounds in order of arrival, so that a chain of
blocks lets every pair meet that a chain of tuples would, and a few more at the edges of windows.
Two numbers per tuple make that exact. Tuples of a side are numbered by arrival; ``since`` is the
number of the oldest tuple of the other side that is in its window when the tuple arrives. A pair
counts if and only if ``s.number >= r.since and r.number >= s.since``: the later of the two finds
the earlier in its window, and the other condition then holds by itself.
"""

from typing import NamedTuple

import numpy as np

from eddyline.device import Tuples
from eddyline.engine.history import History
from eddyline.errors import DeviceError
from eddyline.plan import All, Layout, Plan, bands
from eddyline.twin.protocol import Item

__all__ = ["SINCE", "Admission", "Key", "Round", "block_dtype", "merge_keys"]

R, S = 0, 1
# Once the windows are judged, nobody needs the time of a tuple: its field holds ``since``.
SINCE = "time"


class Key(NamedTuple):
    """Words of one side between which a merge join compares: an interval, or twice one word."""

    low: int
    high: int


class Round(NamedTuple):
    """At most one block of either side; what has left the windows; what is in them.

    No tuple of this round or a later one needs a tuple of side ``p`` below ``horizons[p]``.
    """

    blocks: tuple[Item | None, Item | None]
    horizons: tuple[int, int]
    live: tuple[int, int]


def block_dtype(layout: Layout) -> np.dtype:
    """Describe a tuple on its way: its number and its record."""
    return np.dtype([("number", "<i8"), *layout.fields])


def merge_keys(plan: Plan) -> list[tuple[Key, Key]]:
    """Return the keys of R and S for each band and equality that every result must meet.

    R matches S only if their intervals overlap: ``s.low <= r.high and r.low <= s.high``.

    Raises
    ------
    DeviceError
        If there is none to sort by.
    """
    parts = plan.predicate.parts if isinstance(plan.predicate, All) else (plan.predicate,)
    pairs, single = bands(parts)
    keys = [(Key(most.r, least.r), Key(least.s, most.s)) for least, most in pairs]
    keys += [(Key(one.r, one.r), Key(one.s, one.s)) for one in single if one.op == "eq"]
    if not keys:
        raise DeviceError(
            "a merge join needs a band or an equality that every result must meet; "
            "use the nested loop for this predicate"
        )
    return keys


class Admission:
    """Number tuples, judge windows, cut blocks and sort them if asked.

    Parameters
    ----------
    plan : Plan
        What is joined.
    block : int
        Most tuples of a block.
    keys : pair of Key, optional
        Sort each block by the low word of its side's key, and leave out tuples whose key is
        invalid: they match nothing.
    """

    def __init__(self, plan: Plan, *, block: int, keys: tuple[Key, Key] | None):
        self.block = block
        self.keys = keys
        self._layouts = (plan.r, plan.s)
        self._windows = (plan.window_r, plan.window_s)
        self._dtypes = (block_dtype(plan.r), block_dtype(plan.s))
        self._sides = np.empty(0, np.uint8)
        self._now = np.empty(0, np.int64)
        self._restart((0, 0))

    def add(self, tuples: Tuples) -> list[Round]:
        """Take arrivals; return the rounds that are full."""
        new = (tuples.r, tuples.s)
        now = np.empty(len(tuples), np.int64)
        for side in (R, S):
            now[tuples.sides == side] = new[side]["time"]
        counts = [history.count for history in self._histories]
        for side in (R, S):
            self._histories[side].append(new[side], keep_from=self._horizons[side])
        for side in (R, S):
            mine, other = tuples.sides == side, self._histories[1 - side]
            before = counts[1 - side] + np.cumsum(~mine)[mine]
            since = np.maximum(other.window_starts(before, now[mine]), self._first[1 - side])
            block = self._described(side, new[side], counts[side], since)
            self._waiting[side] = np.concatenate([self._waiting[side], block])
        self._sides = np.concatenate([self._sides, tuples.sides])
        self._now = np.concatenate([self._now, now])
        return self._cut(whole=False)

    def rest(self) -> list[Round]:
        """End the input: return what is left, and start again with empty windows."""
        rounds = self._cut(whole=True)
        self._restart((self._histories[R].count, self._histories[S].count))
        return rounds

    @property
    def used(self) -> bool:
        """Say whether there were arrivals since the last flush."""
        return any(
            history.count > first
            for history, first in zip(self._histories, self._first, strict=True)
        )

    def _restart(self, numbers: tuple[int, int]) -> None:
        self._first = list(numbers)
        self._horizons = list(numbers)
        # Only times are kept here: a layout without words.
        self._histories = tuple(History(Layout((), ()), window) for window in self._windows)
        for history, number in zip(self._histories, numbers, strict=True):
            history.base = history.count = number
        self._waiting = [np.empty(0, dtype) for dtype in self._dtypes]

    def _described(
        self, side: int, records: np.ndarray, first: int, since: np.ndarray
    ) -> np.ndarray:
        block = np.empty(len(records), self._dtypes[side])
        for name, _ in self._layouts[side].fields:
            block[name] = records[name]
        block["number"] = np.arange(first, first + len(records))
        block[SINCE] = since
        return block

    def _cut(self, *, whole: bool) -> list[Round]:
        places = [np.flatnonzero(self._sides == side) for side in (R, S)]
        rounds = []
        done, taken = 0, [0, 0]
        while done < len(self._sides):
            full = [
                int(places[side][taken[side] + self.block - 1]) + 1
                for side in (R, S)
                if taken[side] + self.block <= len(places[side])
            ]
            if not full and not whole:
                break
            end = min(full, default=len(self._sides))
            rounds.append(self._round(done, [int(np.searchsorted(p, end)) for p in places], taken))
            done = end
        self._sides, self._now = self._sides[done:], self._now[done:]
        for side in (R, S):
            self._waiting[side] = self._waiting[side][taken[side] :]
        return rounds

    def _round(self, at: int, ends: list[int], taken: list[int]) -> Round:
        """Make the round that starts with arrival ``at``, and move ``taken`` to its end."""
        blocks: list[Item | None] = []
        live = []
        for side in (R, S):
            waiting = self._waiting[side]
            history = self._histories[side]
            before = history.count - len(waiting) + taken[side]
            horizon = int(history.window_starts(np.array([before]), self._now[at : at + 1])[0])
            self._horizons[side] = max(horizon, self._horizons[side])
            part = waiting[taken[side] : ends[side]]
            live.append(before + len(part) - self._horizons[side])
            blocks.append(self._item(side, part) if len(part) else None)
            taken[side] = ends[side]
        return Round(
            (blocks[R], blocks[S]), (self._horizons[R], self._horizons[S]), (live[R], live[S])
        )

    def _item(self, side: int, part: np.ndarray) -> Item:
        number, weight = int(part["number"][-1]), len(part)
        if self.keys is not None:
            key, words = self.keys[side], self._layouts[side].words
            bits = np.uint64(1 << key.low | 1 << key.high)
            part = part[part["valid"] & bits == bits]
            part = part[np.argsort(part[words[key.low].name], kind="stable")]
        return Item(side, number, np.ascontiguousarray(part), weight)
