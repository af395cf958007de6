"""Where a join runs. Every device keeps the same promise, and one suite checks them all."""

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np

from eddyline.plan import Plan

__all__ = ["Counters", "Device", "Results", "TakesLate", "Tuples", "joined", "no_results"]

Counters = dict[str, int | float]


@dataclass(frozen=True)
class Tuples:
    """Encoded tuples in order of arrival.

    ``sides`` has one entry per arrival, 0 for R and 1 for S. ``r`` and ``s`` hold the records of
    each side (``np.dtype(plan.r.fields)`` and the same for S), in that order.
    """

    sides: np.ndarray
    r: np.ndarray
    s: np.ndarray

    def __len__(self) -> int:
        return len(self.sides)

    @property
    def times(self) -> np.ndarray:
        """The time of each arrival."""
        times = np.empty(len(self), np.int64)
        for side, records in enumerate((self.r, self.s)):
            times[self.sides == side] = records["time"]
        return times

    def cut(self, place: int) -> tuple["Tuples", "Tuples"]:
        """Return the first ``place`` arrivals, and the others."""
        s = int(np.count_nonzero(self.sides[:place]))
        r = place - s
        return (
            Tuples(self.sides[:place], self.r[:r], self.s[:s]),
            Tuples(self.sides[place:], self.r[r:], self.s[s:]),
        )


@dataclass(frozen=True)
class Results:
    """Pairs of row ids and the stars between them.

    A star at position ``p`` comes after the first ``p`` pairs. ``closed`` counts the arrivals,
    since ``configure``, whose pairs have all been handed over.
    """

    r_id: np.ndarray
    s_id: np.ndarray
    stars: np.ndarray
    closed: int

    def __len__(self) -> int:
        return len(self.r_id)

    @property
    def nothing(self) -> bool:
        return not len(self.r_id) and not len(self.stars)


class Device(Protocol):
    """A join engine. A context manager; belongs to one thread."""

    name: str

    def configure(self, plan: Plan) -> None:
        """Get ready for a plan, with empty windows.

        Raises
        ------
        DeviceError
            If this device cannot do the plan; the message says why.
        """

    def push(self, tuples: Tuples) -> None:
        """Take tuples, any number of them."""

    def pull(self) -> Results:
        """Return a bounded part of what is ready; ``nothing`` when there is no more for now."""

    def flush(self) -> Results:
        """End the input: return everything that is left, close all stars, empty the windows."""

    def counters(self) -> Counters:
        """Return totals since ``configure``. A device has only the counters that it counts."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...


@runtime_checkable
class TakesLate(Protocol):
    """A device that can take tuples in any order of time, where results have no order either."""

    def accept_late(self) -> bool:
        """Get ready for that, right after ``configure``; return whether it can be with this plan.

        Pairs are then those of the same tuples in order: by time, R before S where it is equal.
        """

    def watermark(self, r: int, s: int) -> None:
        """Say that no tuple of R or S before these times will follow what has been pushed."""


def no_results(closed: int) -> Results:
    empty = np.empty(0, np.uint32)
    return Results(empty, empty, np.empty(0, np.int64), closed)


def joined(parts: list[Results], closed: int) -> Results:
    """Put parts behind one another."""
    if not parts:
        return no_results(closed)
    offsets = np.cumsum([0] + [len(part) for part in parts[:-1]])
    stars = [part.stars + offset for part, offset in zip(parts, offsets, strict=True)]
    return Results(
        np.concatenate([part.r_id for part in parts]),
        np.concatenate([part.s_id for part in parts]),
        np.concatenate(stars),
        closed,
    )
