"""Arrivals on their way into batches, which are closed by count or by time."""

import time
from collections import deque

import numpy as np

from eddyline.device import Tuples

__all__ = ["Collector"]


class Collector:
    """Collects arrivals (PanJoin, section III-E: a count and a time, whichever is met first).

    Parameters
    ----------
    most : int
        A batch with so many arrivals is closed.
    linger : float
        So is one whose first arrival came so many seconds ago.
    """

    def __init__(self, most: int, linger: float):
        if most < 1:
            raise ValueError(f"a batch has at least 1 arrival, not {most}")
        self.limit = most  # may be lowered for a while
        self.most = most
        self._linger = linger
        self._waiting: deque[tuple[float, Tuples]] = deque()
        self._count = 0

    def add(self, tuples: Tuples) -> None:
        self._waiting.append((time.monotonic(), tuples))
        self._count += len(tuples)

    def full(self) -> bool:
        """Say whether a batch is closed by its count."""
        return self._count >= self.limit

    def due(self) -> bool:
        """Say whether a batch is closed by its count or by its time."""
        return self.full() or (
            self._count > 0 and time.monotonic() - self._waiting[0][0] >= self._linger
        )

    def __len__(self) -> int:
        return self._count

    def take(self) -> Tuples:
        """Return a batch, closed or not, of one arrival at least."""
        wanted = min(self.limit, self._count)
        self._count -= wanted
        parts: list[Tuples] = []
        while wanted:
            since, first = self._waiting.popleft()
            if len(first) > wanted:
                first, rest = first.cut(wanted)
                self._waiting.appendleft((since, rest))
            parts.append(first)
            wanted -= len(first)
        if len(parts) == 1:
            return parts[0]
        sides, r, s = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("sides", "r", "s")
        )
        return Tuples(sides, r, s)

    def clear(self) -> None:
        self._waiting.clear()
        self._count = 0
