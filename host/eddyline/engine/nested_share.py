"""The nested loop over a share of the tuples: every arrival meets those that are stored here."""

import numpy as np

from eddyline.device import Tuples
from eddyline.engine.history import History
from eddyline.engine.nested_join import Batch, NestedLoopJoin
from eddyline.engine.part import Held, Stores
from eddyline.plan import Layout, Window

__all__ = ["NestedLoopShare"]


class _Share(History):
    """Stored tuples, one behind the other; ``numbers`` are their sequence numbers in the stream.

    ``passed`` counts the tuples of the stream, stored or not.
    """

    def __init__(self, layout: Layout, window: Window):
        super().__init__(layout, window)
        self.numbers = np.zeros(0, np.int64)
        self._first = 0  # place of the first of these numbers
        self.passed = 0

    def enter(self, records: np.ndarray, stores: np.ndarray, *, keep_from: int) -> None:
        kept = np.flatnonzero(stores)
        self.append(records[kept], keep_from=keep_from)
        self.numbers = np.concatenate([self.numbers[self.base - self._first :], self.passed + kept])
        self._first = self.base
        self.passed += len(records)

    def window_starts(
        self, stops: np.ndarray, now: np.ndarray, passed: np.ndarray | None = None
    ) -> np.ndarray:
        if self.window.kind != "rows":
            return super().window_starts(stops, now)
        ends = self.passed if passed is None else passed
        first = np.searchsorted(self.numbers, ends - self.window.size, "left")
        return np.minimum(self.base + first, stops)

    def held(self) -> Held:
        last = self.times[self.count - self.base - 1 : self.count - self.base]
        stop = np.array([self.count])
        start = int(self.window_starts(stop, last)[0]) if self.count else 0
        live = self.numbers[start - self.base :]
        if not len(live):
            return Held(0, 0, 0, False)
        return Held(len(live), int(live[0]), int(live[-1]) + 1, False)


class NestedLoopShare(NestedLoopJoin):
    """Compare every arrival with the tuples of the other window that are stored here.

    A :class:`eddyline.engine.part.ShareEngine`. ``starts`` and ``stops`` of its parts count stored
    tuples only.
    """

    _histories: tuple[_Share, _Share]

    def push(
        self, tuples: Tuples, stores: Stores | None = None, keys: np.ndarray | None = None
    ) -> None:
        if stores is None:
            stores = (np.ones(len(tuples.r), np.uint8), np.ones(len(tuples.s), np.uint8))
        stored = np.empty(len(tuples), bool)
        passed = np.empty(len(tuples), np.int64)
        batch = self._probes(tuples)
        for side in (0, 1):
            stored[tuples.sides == side] = stores[side]
        for side, other in ((0, self._histories[1]), (1, self._histories[0])):
            mine = tuples.sides == side
            batch.stops[mine] = other.count + np.cumsum(~mine & stored)[mine]
            passed[mine] = other.passed + np.cumsum(~mine)[mine]
        self._enter(tuples, stores)
        now = tuples.times
        for side, other in ((0, self._histories[1]), (1, self._histories[0])):
            mine = tuples.sides == side
            batch.starts[mine] = other.window_starts(batch.stops[mine], now[mine], passed[mine])
        self._add(batch)

    def load(self, tuples: Tuples, stores: Stores) -> None:
        self._enter(tuples, stores)

    def skip(self, r: int, s: int) -> None:
        for history, count in zip(self._histories, (r, s), strict=True):
            history.passed += count

    def expire(self, r: int, s: int) -> None:
        """Do nothing: what is too old is dropped when room is needed."""

    def held(self) -> tuple[Held, Held]:
        r, s = self._histories
        return r.held(), s.held()

    def _enter(self, tuples: Tuples, stores: Stores) -> None:
        oldest = self._oldest_needed()
        for history, records, kept, keep_from in zip(
            self._histories, (tuples.r, tuples.s), stores, oldest, strict=True
        ):
            history.enter(records, kept, keep_from=keep_from)

    def _empty_windows(self) -> None:
        plan = self._plan
        self._histories = (_Share(plan.r, plan.window_r), _Share(plan.s, plan.window_s))

    def _scan(self, batch: Batch, job: slice) -> tuple[np.ndarray, ...]:
        r_id, s_id, at, ends = super()._scan(batch, job)
        sides = np.repeat(batch.sides[job], np.diff(ends, prepend=0))
        numbers = np.empty(len(at), np.int64)
        for side, other in ((0, self._histories[1]), (1, self._histories[0])):
            mine = sides == side
            numbers[mine] = other.numbers[at[mine] - other.base]
        return r_id, s_id, numbers, ends
