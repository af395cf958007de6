"""The lock-step chain on one thread: every arrival moves its whole window by one place.

A window is a shift register of ``max(size, cores)`` slots cut into one segment per core, none of
them empty. In a step, each core takes its neighbour's oldest slot and compares what is in it with
the segment of the other side. Only one side moves at a time, and one core at a time, so that no
two tuples can pass each other unseen, and none meet twice.

A window smaller than the chain has slots left over: after every ``size`` tuples, ``cores - size``
bubbles follow, so that any ``cores`` consecutive slots hold exactly ``size`` tuples.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from eddyline.errors import DeviceError
from eddyline.plan import Window
from eddyline.reference import Arrival
from eddyline.twin.model import Model
from eddyline.twin.protocol import split

__all__ = ["LockStep", "Step"]

R, S = 0, 1
Slot = Arrival | None


class Step(NamedTuple):
    """What one step did: the side that moved, its new tuple, and where its comparisons are.

    ``tuple`` is None for a bubble; ``comparisons[first:last]`` of the chain belong to the step.
    """

    side: str
    tuple: int | None
    first: int
    last: int


class LockStep(Model):
    """Shift registers that move in one step on all cores.

    Parameters
    ----------
    cores, matches, window_r, window_s, capacity
        As for :class:`Model`; a window that is not counted in rows needs a capacity.

    Members
    -------
    segments : pair of list of deque
        Slots of R and of S by core, oldest first.
    steps : list of Step
        Every step so far.
    """

    def __init__(
        self,
        cores: int,
        matches: Callable[[Any, Any], bool],
        window_r: Window,
        window_s: Window,
        capacity: tuple[int | None, int | None] = (None, None),
    ):
        super().__init__(cores, matches, window_r, window_s, capacity)
        sizes = [size for size in self.sizes if size is not None]
        if len(sizes) < 2:
            raise DeviceError("a lock-step chain needs windows of rows, or a capacity for others")
        self._slots = [max(size, cores) for size in sizes]
        # Shares are counted from where a side enters: R from the left, S from the right.
        self._shares = [split(self._slots[R], cores), split(self._slots[S], cores)[::-1]]
        self._bubbles = [slots - size for slots, size in zip(self._slots, sizes, strict=True)]
        self._period = sizes
        self.steps: list[Step] = []
        self._empty()

    def push(self, new: Arrival) -> None:
        """Admit a tuple: one step, and the bubbles that are due after it."""
        side = "rs".index(new.side)
        self.leaves(new)
        self._step(side, new)
        self._since_bubbles[side] += 1
        if self._since_bubbles[side] == self._period[side]:
            self._since_bubbles[side] = 0
            for _ in range(self._bubbles[side]):
                self._step(side, None)

    def flush(self) -> None:
        """Let every remaining pair meet and empty the windows.

        One side walking out past the other is enough; the one with fewer slots does.
        """
        side = R if self._slots[R] <= self._slots[S] else S
        for _ in range(self._slots[side]):
            self._step(side, None)
        self._empty()
        self.forget()

    def _empty(self) -> None:
        self.segments: tuple[list[deque[Slot]], list[deque[Slot]]] = (
            [deque([None] * share) for share in self._shares[R]],
            [deque([None] * share) for share in self._shares[S]],
        )
        self._since_bubbles = [0, 0]

    def _step(self, side: int, new: Slot) -> None:
        first = len(self.comparisons)
        own, other = self.segments[side], self.segments[1 - side]
        order = range(self.cores) if side == R else range(self.cores - 1, -1, -1)
        moving = new
        for place in order:
            leaving = own[place].popleft()
            own[place].append(moving)
            if moving is not None:
                self.meet(place, moving, [slot for slot in other[place] if slot is not None])
            moving = leaving
        self.steps.append(Step("rs"[side], new.id if new else None, first, len(self.comparisons)))
