"""Who stores which tuple: the two ways of sharing the work."""

from typing import Protocol

import numpy as np

from eddyline.device import Tuples
from eddyline.plan import Plan, Window

__all__ = ["OWNER", "SUBWINDOWS", "Sharing", "SubwindowSharing", "TupleSharing", "sharing"]

OWNER = np.dtype(np.uint16)
# Subwindows per worker and window (PanJoin, section V-C). Every one is another lookup for every
# arrival; a worker cuts its own into smaller ones where batches are small.
SUBWINDOWS = 1
UNBOUNDED = 1 << 14  # tuples of a subwindow where the window has no end
LONGEST = 2**63 - 1


class Sharing(Protocol):
    """Decides which worker stores a tuple.

    A pair is found by the one that stores the earlier; with an index, a pair within a batch by the
    one that stores the tuple of R.
    """

    def owners(self, tuples: Tuples, first: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the workers that store these tuples of R and of S.

        ``first`` are the sequence numbers of the first of them. Batches come in order.
        """

    def reset(self) -> None:
        """Start again with empty windows."""


class TupleSharing:
    """Give every n-th tuple of a side to a worker (ScaleJoin, algorithm 1).

    Sides are counted one by one: with a single counter, a side whose tuples come at regular
    distances could end up on few workers.
    """

    def __init__(self, workers: int):
        self._workers = workers

    def owners(self, tuples: Tuples, first: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        r, s = (
            ((start + np.arange(len(records))) % self._workers).astype(OWNER)
            for start, records in zip(first, (tuples.r, tuples.s), strict=True)
        )
        return r, s

    def reset(self) -> None:
        pass


class SubwindowSharing:
    """Give subwindows to workers, one after the other (PanJoin, section III-A).

    The worker with the newest subwindow of a window often has the oldest, too, so S begins half a
    round after R: one worker then stores R while another stores S.

    Parameters
    ----------
    plan : Plan
        What is joined; its windows are cut.
    workers : int
        How many there are.
    each : int
        Subwindows of a window that a worker holds.
    """

    def __init__(self, plan: Plan, workers: int, each: int = SUBWINDOWS):
        self._workers = workers
        self._sides = [
            _TimeCutter(window, workers * each)
            if window.kind == "time"
            else _RowCutter(window, workers * each)
            for window in (plan.window_r, plan.window_s)
        ]

    def owners(self, tuples: Tuples, first: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        r, s = (
            ((turn + side.numbers(records["time"], start)) % self._workers).astype(OWNER)
            for turn, side, records, start in zip(
                (0, self._workers // 2), self._sides, (tuples.r, tuples.s), first, strict=True
            )
        )
        return r, s

    def reset(self) -> None:
        for side in self._sides:
            side.reset()


class _RowCutter:
    """Cuts after so many tuples."""

    def __init__(self, window: Window, subwindows: int):
        self.size = -(-window.size // subwindows) if window.kind == "rows" else UNBOUNDED

    def numbers(self, times: np.ndarray, first: int) -> np.ndarray:
        return (first + np.arange(len(times))) // self.size

    def reset(self) -> None:
        pass


class _TimeCutter:
    """Cuts where a span of time ends; a span without tuples makes no subwindow."""

    def __init__(self, window: Window, subwindows: int):
        self.span = min(max(window.size // subwindows, 1), LONGEST)
        self._span: int | None = None
        self._number = 0

    def numbers(self, times: np.ndarray, first: int) -> np.ndarray:
        if not len(times):
            return np.empty(0, np.int64)
        spans = times // self.span
        before = spans[0] if self._span is None else self._span
        numbers = self._number + np.cumsum(np.diff(spans, prepend=before) != 0)
        self._span, self._number = int(spans[-1]), int(numbers[-1])
        return numbers

    def reset(self) -> None:
        self._span = None
        self._number = 0


def sharing(name: str, plan: Plan, workers: int, each: int = 0) -> Sharing:
    """Return the way that is called ``subwindows`` or ``tuples``."""
    if name == "tuples":
        return TupleSharing(workers)
    if name == "subwindows":
        return SubwindowSharing(plan, workers, each or SUBWINDOWS)
    raise ValueError(f"no way of sharing called {name!r} (known: subwindows, tuples)")
