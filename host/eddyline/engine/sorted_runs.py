"""BI-Sort without a compiler: sorted runs of intervals in numpy, looked up and expanded in numba.

The newest subwindow is a few runs, the later the smaller, which are merged as tuples come in, like
BI-Sort's insertion buffer and main array (PanJoin, section III-D). It is sealed when it is large
enough, and the oldest leaves whole.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

__all__ = ["Run", "Runs", "expanded"]

LEAST = 1 << 12  # tuples of a subwindow
SUBWINDOWS = 4  # of what is stored


@dataclass(frozen=True)
class Run:
    """Intervals by their lower bounds, with the sequence numbers of their tuples.

    ``reach`` are the largest upper bounds up to each place, ``last`` is the newest tuple.
    """

    low: np.ndarray
    high: np.ndarray
    reach: np.ndarray
    numbers: np.ndarray
    last: int

    @classmethod
    def of(cls, low: np.ndarray, high: np.ndarray, numbers: np.ndarray) -> "Run":
        # Stable, because that merges what is sorted already.
        order = np.argsort(low, kind="stable")
        high = high[order]
        reach = np.maximum.accumulate(high)
        return cls(low[order], high, reach, numbers[order], int(numbers.max()))

    def __len__(self) -> int:
        return len(self.low)

    def lookup(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, of each interval, where candidates begin and end; all that overlap are there."""
        begin = np.searchsorted(self.reach, low, "left")
        return begin, np.maximum(begin, np.searchsorted(self.low, high, "right"))


class Runs:
    """The tuples of one side, in chained subwindows."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._sealed = 0  # of the runs, from the first on

    def insert(self, low: np.ndarray, high: np.ndarray, numbers: np.ndarray) -> None:
        """Store intervals [low, high]. Numbers rise from one call to the next."""
        if not len(low):
            return
        self.runs.append(Run.of(low, high, numbers))
        while len(self.runs) - self._sealed > 1 and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
            two = self.runs[-2:]
            self.runs[-2:] = [
                Run.of(
                    *(
                        np.concatenate([getattr(one, name) for one in two])
                        for name in ("low", "high", "numbers")
                    )
                )
            ]
        if len(self.runs[-1]) >= max(LEAST, sum(map(len, self.runs)) // SUBWINDOWS):
            self._sealed = len(self.runs)

    def expire(self, below: int) -> None:
        """Let what is below a sequence number go, where that is a whole run."""
        gone = 0
        while gone < len(self.runs) and self.runs[gone].last < below:
            gone += 1
        del self.runs[:gone]
        self._sealed = max(0, self._sealed - gone)


def expanded(
    run: Run,
    begin: np.ndarray,
    end: np.ndarray,
    low: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the candidates of lookups that reach up to ``low`` and are in their windows.

    As places among the lookups, and sequence numbers from ``starts`` to before ``stops``.
    """
    most = int((end - begin).sum())
    places, numbers = np.empty(most, np.int64), np.empty(most, np.int64)
    count = _expand(begin, end, low, starts, stops, run.high, run.numbers, places, numbers)
    return places[:count], numbers[:count]


@njit(nogil=True, cache=True, error_model="numpy")
def _expand(
    begin: np.ndarray,
    end: np.ndarray,
    low: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    high: np.ndarray,
    numbers: np.ndarray,
    places: np.ndarray,
    found: np.ndarray,
) -> int:
    count = 0
    for i in range(len(begin)):
        for j in range(begin[i], end[i]):
            places[count] = i
            found[count] = numbers[j]
            count += (high[j] >= low[i]) & (numbers[j] >= starts[i]) & (numbers[j] < stops[i])
    return count
