"""The join inside one core: a block that enters against the blocks that it finds.

Either way, a pair counts if ``s.number >= r.since and r.number >= s.since`` (see
:mod:`eddyline.twin.admission`) and the predicate holds.
"""

from typing import Protocol

import numpy as np

from eddyline.engine.history import History
from eddyline.engine.nested_loop import program, scan, warm_up
from eddyline.plan import Layout, Plan, Window
from eddyline.twin.admission import SINCE
from eddyline.twin.protocol import Item

__all__ = ["LocalJoin", "NestedLoop", "Pairs"]

Pairs = tuple[np.ndarray, np.ndarray]


class LocalJoin(Protocol):
    """A local join keeps its own copy of what its core holds."""

    comparisons: int

    def enter(self, item: Item, partners: list[Item], *, keep_from: int) -> Pairs:
        """Compare a block with consecutive blocks of the other side, then store it.

        Returns the ids of R and of S. Tuples of the item's own side below ``keep_from`` are no
        longer held and may be dropped.
        """


class NestedLoop:
    """Every tuple against every tuple of its window, with the cpu device's kernels.

    Blocks of a side are consecutive, so what a tuple has to meet is one range of numbers.
    """

    def __init__(self, plan: Plan):
        warm_up()
        self._plan = plan
        self._stored = [self._empty(side, 0) for side in (0, 1)]
        r, s = (program(plan, "rs"[side], self._stored[side].places) for side in (0, 1))
        self._code = (r, s)
        self.comparisons = 0

    def enter(self, item: Item, partners: list[Item], *, keep_from: int) -> Pairs:
        block, other = item.content, self._stored[1 - item.side]
        starts = np.zeros(len(block), np.int64)
        stops = starts
        if partners:
            first, last = partners[0].number + 1 - partners[0].weight, partners[-1].number + 1
            held = other.times[first - other.base : last - other.base]
            starts = np.clip(block[SINCE], first, last)
            stops = np.maximum(first + np.searchsorted(held, block["number"], "right"), starts)
        self.comparisons += int((stops - starts).sum())
        found, _, ends = scan(
            self._code,
            (self._stored[0], self._stored[1]),
            self._probes(item.side, block, starts, stops),
        )
        own = np.repeat(block["id"], np.diff(ends, prepend=0))
        self._store(item, keep_from)
        return (own, found) if item.side == 0 else (found, own)

    def _probes(
        self, side: int, block: np.ndarray, starts: np.ndarray, stops: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        layout: Layout = self._plan.layout("rs"[side])
        narrow = np.zeros((len(block), max(len(layout.words), 1)), np.uint32)
        wide = np.zeros(narrow.shape, np.uint64)
        for i, word in enumerate(layout.words):
            (wide if word.width > 32 else narrow)[:, i] = block[word.name]
        sides = np.full(len(block), side, np.uint8)
        return sides, narrow, wide, np.ascontiguousarray(block["valid"]), starts, stops

    def _store(self, item: Item, keep_from: int) -> None:
        history = self._stored[item.side]
        first = item.number + 1 - item.weight
        if history.count != first:  # after a flush that left tuples of this side where they were
            history = self._stored[item.side] = self._empty(item.side, first)
        history.append(item.content, keep_from=min(keep_from, first))

    def _empty(self, side: int, first: int) -> History:
        # Its column of times is sorted; ``since`` is sorted, too, and has taken its place.
        history = History(self._plan.layout("rs"[side]), Window("unbounded"))
        history.base = history.count = first
        return history
