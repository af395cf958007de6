"""What engines hand over."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eddyline.device import Tuples

__all__ = ["Engine", "Part"]


@dataclass(frozen=True)
class Part:
    """Some results: pairs of ids and, in order of arrival, what stars need to know.

    ``at`` are sequence numbers of the earlier tuples, ``ends`` the pairs up to the end of each of
    these arrivals, ``starts`` and ``stops`` their partners; an engine that was asked for no order
    may leave these empty. ``closed`` counts the arrivals, from the first on, whose pairs have all
    been handed over.
    """

    r_id: np.ndarray
    s_id: np.ndarray
    at: np.ndarray
    ends: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    closed: int


class Engine(Protocol):
    """Joins what is pushed, for one plan."""

    def push(self, tuples: Tuples) -> None:
        """Take tuples, any number of them but none."""

    def pull(self) -> Part | None:
        """Return a bounded part of the results, or None if all have been handed over."""

    def flush(self) -> None:
        """Empty the windows. What has not been pulled is gone."""

    def report(self) -> dict[str, int]:
        """Return what was counted, among it ``tuples``, ``results`` and ``comparisons``."""

    def close(self) -> None: ...
