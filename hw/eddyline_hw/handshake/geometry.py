"""Where tuples are in a handshake chain, and which pairs have met by then.

R enters at core 0 and walks right, S enters at core n-1 and walks left. A new tuple pushes those of
its own side on by one slot; in lock step, bubbles follow so that a window smaller than the chain is
spread over all of it. How far a tuple has come depends on the number of tuples behind it alone, so
the host can work out what the gateware has compared without asking. Plain numbers, for gateware and
host alike.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

__all__ = ["Chain", "Segments", "require_fit"]


@dataclass(frozen=True)
class Segments:
    """The slots of one side, counted from the core at which it enters.

    Members
    -------
    total : int
        Slots of all cores: in lock step at least one per core, else exactly the window.
    base, extra : int
        A core has ``base`` slots, the first ``extra`` cores one more.
    period, bubbles : int
        After every ``period`` tuples come ``bubbles`` empty steps.
    """

    cores: int
    window: int
    lockstep: bool

    @cached_property
    def total(self) -> int:
        return max(self.window, self.cores) if self.lockstep else self.window

    @property
    def base(self) -> int:
        return self.total // self.cores

    @property
    def extra(self) -> int:
        return self.total % self.cores

    @property
    def period(self) -> int:
        return self.window

    @property
    def bubbles(self) -> int:
        return self.total - self.window

    @property
    def largest(self) -> int:
        """The most slots of a core."""
        return self.base + (self.extra > 0)

    def share(self, core: int) -> int:
        """Return the slots of the ``core``-th core on the way."""
        return self.base + (core < self.extra)

    def steps(self, count: int) -> int:
        """Return the steps that ``count`` tuples have made, with the bubbles behind them."""
        return count + self.bubbles * (count // self.period)

    def slot(self, number: int, count: int) -> int:
        """Return where a tuple is when there were ``count``; from ``total`` on it has left."""
        return self.steps(count) - 1 - (number + self.bubbles * (number // self.period))

    def core_of(self, slot: int) -> int:
        """Return which core on the way a slot belongs to; ``cores`` if it is beyond the last."""
        if slot >= self.total:
            return self.cores
        wide = self.extra * (self.base + 1)
        if slot < wide:
            return slot // (self.base + 1)
        return self.extra + (slot - wide) // self.base


@dataclass(frozen=True)
class Chain:
    """A chain of cores that compares each pair where the two tuples meet.

    Everything is counted since the windows were last empty; a flush starts from zero again.

    Parameters
    ----------
    cores : int
        Length of the chain.
    window_r, window_s : int
        Tuples of each side that are in the chain at once.
    kind : str
        ``lockstep`` or ``asynchronous``.
    """

    cores: int
    window_r: int
    window_s: int
    kind: Literal["lockstep", "asynchronous"] = "lockstep"

    def __post_init__(self) -> None:
        if min(self.cores, self.window_r, self.window_s) < 1:
            raise ValueError(
                f"a chain of {self.cores} cores with windows of {self.window_r} and "
                f"{self.window_s} tuples joins nothing: use 1 or more of each"
            )
        if self.kind not in ("lockstep", "asynchronous"):
            raise ValueError(f"a chain is lockstep or asynchronous, not {self.kind!r}")

    @cached_property
    def r(self) -> Segments:
        return Segments(self.cores, self.window_r, self.kind == "lockstep")

    @cached_property
    def s(self) -> Segments:
        return Segments(self.cores, self.window_s, self.kind == "lockstep")

    @property
    def total_r(self) -> int:
        return self.r.total

    @property
    def total_s(self) -> int:
        return self.s.total

    def core_r(self, number: int, count: int) -> int:
        """Return the core that holds a tuple of R; ``cores`` when it has left."""
        return self.r.core_of(self.r.slot(number, count))

    def core_s(self, number: int, count: int) -> int:
        """Return the core that holds a tuple of S; -1 when it has left."""
        return self.cores - 1 - self.s.core_of(self.s.slot(number, count))

    def met(self, r: int, s: int, count_r: int, count_s: int) -> bool:
        """Say whether two tuples have been in one core, after so many tuples of each side.

        A tuple passes through every core and no step takes it further than the next one, so the
        two cannot pass each other without that. True also if one had left before the other came.
        """
        return self.core_r(r, count_r) >= self.core_s(s, count_s)


def require_fit(side: str, size: int, capacity: int) -> None:
    """Refuse a window that a chain of this capacity cannot hold."""
    if not 1 <= size <= capacity:
        raise ValueError(
            f"a window of {size} rows of {side.upper()} is not within 1 and the capacity of "
            f"{capacity}"
        )
