"""Nested loop in numpy: every row against its whole window, a few instructions per comparison.

The loop's time is proportional to the comparisons, whatever the values are. So the last rows of
the streams, whose windows are full, stand for all of them.
"""

import numpy as np
import pyarrow as pa

from bench.peers.participant import Job
from bench.peers.workloads import Workload

__all__ = ["Numpy"]


class Numpy:
    """The vectorised nested loop.

    Parameters
    ----------
    comparisons : int, optional
        Do about as many, and extrapolate from them; by default, do all.
    """

    name = "numpy nested loop"

    def __init__(self, comparisons: int | None = None) -> None:
        self.comparisons = comparisons

    def prepare(self, work: Workload) -> Job:
        first = self._first(work)
        columns = _columns(work)
        met = sum(
            stop - start for row in range(first, work.rows) for start, stop in _met(work, row)
        )

        def run() -> pa.Table:
            found: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
            for row in range(first, work.rows):
                for side, (start, stop) in enumerate(_met(work, row)):
                    partners = start + np.flatnonzero(_matches(columns, side, row, start, stop))
                    found[side].append(np.full(len(partners), row, np.int32))
                    found[1 - side].append(partners.astype(np.int32))
            i, j = (np.concatenate(one) if one else np.empty(0, np.int32) for one in found)
            return pa.table({"i": i, "j": j})

        return Job(run, share=met / work.comparisons if work.comparisons else 1.0)

    def plan(self, work: Workload) -> str:
        done = work.rows - self._first(work)
        return f"every pair in the window compared; the last {done:,} rows of each side measured"

    def _first(self, work: Workload) -> int:
        if self.comparisons is None:
            return 0
        return max(0, work.rows - max(1, self.comparisons // (2 * work.window)))


Columns = list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]


def _met(work: Workload, row: int) -> list[tuple[int, int]]:
    """Return the rows that R's row meets on arrival, then those that S's row meets."""
    return [(max(0, row - work.window), row), (max(0, row + 1 - work.window), row + 1)]


def _columns(work: Workload) -> Columns:
    """Return per band the side of its middle (0 is R), both bounds, and the other side's values."""
    columns = []
    for band in work.bands:
        r, s = (table[name].to_numpy() for table, name in ((work.r, band.r), (work.s, band.s)))
        middle, other = (r, s) if band.around == "r" else (s, r)
        if work.floating(band):
            reach = np.float32(band.reach)
            low, high = middle - reach, middle + reach
        else:
            limits = np.iinfo(np.int32)
            low, high = (
                np.clip(middle.astype(np.int64) + reach, limits.min, limits.max).astype(np.int32)
                for reach in (-band.reach, band.reach)
            )
        columns.append(("rs".index(band.around), low, high, other))
    return columns


def _matches(columns: Columns, side: int, row: int, start: int, stop: int) -> np.ndarray:
    """Compare a row of a side (0 is R) with rows of the other side."""
    matches = np.ones(stop - start, bool)
    for middle, low, high, value in columns:
        # The bounds are those of the row, or of the rows it is compared with.
        bounds = row if side == middle else slice(start, stop)
        values = value[slice(start, stop) if side == middle else row]
        matches &= low[bounds] <= values
        matches &= values <= high[bounds]
    return matches
