"""How many units a join should have: BiStream's two-phase scaling (section 5).

The requesting phase looks at the memory of all units and decides whether to have more or fewer; the
scaling phase begins when the same has been decided several times in a row, so that a short rise or
fall changes nothing.
"""

import math
from collections.abc import Sequence

__all__ = ["Manager"]


class Manager:
    """Watches the load of units.

    Parameters
    ----------
    capacity : int
        Memory of a unit, in bytes.
    high, low : float
        Part of the capacity above which there are too few units, below which too many.
    target : float
        Part of the capacity that should be in use after a change, between the two.
    agreeing : int
        Equal decisions in a row that make a change.
    """

    def __init__(
        self,
        capacity: int,
        *,
        high: float = 0.8,
        low: float = 0.3,
        target: float = 0.6,
        agreeing: int = 3,
    ):
        if capacity < 1:
            raise ValueError(f"capacity={capacity!r} bytes of a unit hold nothing")
        if not 0 <= low < target < high:
            raise ValueError(f"low={low!r}, target={target!r} and high={high!r} are not in order")
        if agreeing < 1:
            raise ValueError(f"agreeing={agreeing!r} is not a number from 1 up")
        self.capacity = capacity
        self.high, self.low, self.target = high, low, target
        self.agreeing = agreeing
        self._decided = 0
        self._times = 0

    def observe(self, loads: Sequence[int]) -> int:
        """Take the bytes in each unit; return how many units to add, or to remove if negative.

        The caller is expected to do so, and to come back with the loads of the new units.
        """
        total, units = sum(loads), len(loads)
        load = total / (units * self.capacity)
        wanted = max(math.ceil(total / (self.target * self.capacity)), 1)  # equation 7
        change = wanted - units
        decided = (load > self.high) - (load < self.low and change < 0)
        self._times = self._times + 1 if decided == self._decided else 1
        self._decided = decided
        if not decided or self._times < self.agreeing:
            return 0
        self._decided = self._times = 0
        return change
