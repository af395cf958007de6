"""What the manager remembers of both windows, in memory that all workers read.

It serves twice: new tuples travel through it, and a worker that takes another's place finds there
what it has to store.
"""

from collections.abc import Iterator

import numpy as np

from eddyline.device import Tuples
from eddyline.engine.history import window_starts
from eddyline.engine.manager.shared import SharedArray
from eddyline.engine.manager.sharing import OWNER
from eddyline.plan import Plan, Window

__all__ = ["Mirror", "MirroredSide"]


class MirroredSide:
    """One side's tuples, by sequence number, and who stores them."""

    def __init__(self, dtype: np.dtype, window: Window):
        self.window = window
        self.records = SharedArray(dtype)
        self.owners = SharedArray(OWNER)

    @property
    def count(self) -> int:
        return self.records.count

    @property
    def kept(self) -> int:
        return self.records.kept

    def append(self, records: np.ndarray, owners: np.ndarray, *, settled: bool) -> None:
        self.records.append(records, settled=settled)
        self.owners.append(owners, settled=settled)

    def forget(self, below: int) -> None:
        self.records.forget(below)
        self.owners.forget(below)

    def window_starts(self, stops: np.ndarray, now: np.ndarray) -> np.ndarray:
        """Return, for arrivals that see the first ``stops`` tuples, where their window starts."""
        live = self.records.view(self.kept, self.count)["time"]
        return window_starts(self.window, live, self.kept, stops, now)


class Mirror:
    """Both sides, and the order of arrival.

    Members
    -------
    sides : pair of MirroredSide
        R and S.
    order : SharedArray
        The side of every arrival.
    keys : SharedArray
        What the manager has made of each batch for all workers, in bytes.
    """

    def __init__(self, plan: Plan):
        self.sides = (
            MirroredSide(np.dtype(plan.r.fields), plan.window_r),
            MirroredSide(np.dtype(plan.s.fields), plan.window_s),
        )
        self.order = SharedArray(np.dtype(np.uint8))
        self.keys = SharedArray(np.dtype(np.uint8))

    @property
    def counts(self) -> tuple[int, int]:
        """Tuples of R and of S that have come."""
        return self.sides[0].count, self.sides[1].count

    def arrays(self) -> Iterator[tuple[str, SharedArray]]:
        """Yield everything that workers read, by the names they know it by."""
        yield "sides", self.order
        yield "keys", self.keys
        for name, side in zip("rs", self.sides, strict=True):
            yield name, side.records
            yield f"{name}_owners", side.owners

    def append(
        self, tuples: Tuples, owners: tuple[np.ndarray, np.ndarray], *, settled: bool = False
    ) -> None:
        """Add a batch; see :class:`SharedArray` for ``settled``."""
        self.order.append(tuples.sides, settled=settled)
        for side, records, whose in zip(self.sides, (tuples.r, tuples.s), owners, strict=True):
            side.append(records, whose, settled=settled)

    def partners(self, tuples: Tuples) -> tuple[np.ndarray, np.ndarray]:
        """Return what each of the last arrivals sees of the other side: from where, up to where."""
        now = tuples.times
        starts, stops = np.empty(len(tuples), np.int64), np.empty(len(tuples), np.int64)
        for mark, other in enumerate(reversed(self.sides)):
            mine = tuples.sides == mark
            theirs = np.cumsum(~mine)
            before = other.count - theirs[-1]
            stops[mine] = before + theirs[mine]
            starts[mine] = other.window_starts(stops[mine], now[mine])
        return starts, stops

    def oldest_live(self, now: int) -> tuple[int, int]:
        """Return the first tuples of R and of S that an arrival after ``now`` may see."""
        r, s = (
            int(side.window_starts(np.array([side.count]), np.array([now]))[0])
            for side in self.sides
        )
        return r, s

    def clear(self) -> None:
        for _, array in self.arrays():
            array.clear()

    def close(self) -> None:
        for _, array in self.arrays():
            array.close()
