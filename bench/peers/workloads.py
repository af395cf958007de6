"""The joins that peers and our engines are measured on, reproducible from a seed.

Rows arrive alternately, R first: row ``i`` of R is arrival ``2 i``, row ``j`` of S is ``2 j + 1``.
With windows of W rows, R's row ``i`` meets the W rows of S before it, ``i - W <= j <= i - 1``, and
S's row ``j`` meets the W rows of R before it, ``j - W + 1 <= i <= j``. Each pair has one later row,
so together they are the pairs with ``1 - W <= i - j <= W``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.streams import PanJoin, SplitJoin, uniform

__all__ = ["Band", "Workload", "band", "band_2d", "equality"]


@dataclass(frozen=True)
class Band:
    """A column of S lies at most ``reach`` from a column of R; with reach 0 they are equal.

    ``around`` names the side whose value is the middle of the band. It matters for floats alone,
    where the sum and the difference are rounded.
    """

    r: str
    s: str
    reach: int = 0
    around: str = "r"

    @property
    def middle(self) -> str:
        """The column that bounds are computed of."""
        return self.r if self.around == "r" else self.s

    @property
    def other(self) -> str:
        """The column that lies between the bounds."""
        return self.s if self.around == "r" else self.r

    @property
    def on(self) -> str:
        """The condition as SQL over ``r`` and ``s``."""
        if not self.reach:
            return f"r.{self.r} = s.{self.s}"
        middle = f"{self.around}.{self.middle}"
        other = f"{'s' if self.around == 'r' else 'r'}.{self.other}"
        return f"{other} BETWEEN {middle} - {self.reach} AND {middle} + {self.reach}"


@dataclass(frozen=True)
class Workload:
    """Two streams, one predicate and one window for both sides.

    The tables have a column ``seq``, the row's number as a 32-bit integer, and the columns of the
    bands: 32-bit integers from 0 on, or 32-bit floats of magnitude below 2^16 (so that ``reach``
    is not rounded away). No value is NULL or NaN. ``selectivity`` is the number of partners a row
    is expected to find in a full window, as an optimizer with statistics would know it.
    """

    name: str
    r: pa.Table = field(repr=False)
    s: pa.Table = field(repr=False)
    bands: tuple[Band, ...]
    window: int
    selectivity: float = 1.0

    @property
    def on(self) -> str:
        """The predicate as SQL, without the window."""
        return " AND ".join(band.on for band in self.bands)

    @property
    def rows(self) -> int:
        """Rows of each side."""
        return self.r.num_rows

    @property
    def tuples(self) -> int:
        """Rows of both sides."""
        return 2 * self.rows

    @property
    def comparisons(self) -> int:
        """Pairs that the window lets meet."""
        n, w = self.rows, self.window
        older = n * min(n, w) - min(n, w) * (min(n, w) + 1) // 2  # S before R: 1 <= i - j <= W
        newer = n * min(n, w) - min(n, w) * (min(n, w) - 1) // 2  # R before S: 0 <= j - i < W
        return older + newer

    def floating(self, band: Band) -> bool:
        """Tell whether the columns of a band are floats."""
        return pa.types.is_floating(self.r.schema.field(band.r).type)

    def doubled(self, number: int) -> str:
        """Name the side whose rows are joined in the bins of both their bounds, for one band.

        Integer bands take turns. A float band has to take the side of its middle: bounds around the
        other side's value are rounded elsewhere, and may leave out a pair at the edge.
        """
        band = self.bands[number]
        return band.around if self.floating(band) else "rs"[number % 2]

    def pieces(self, rows: int) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Cut R into pieces of ``rows``, each with the rows of S that its own rows may meet.

        Every pair is in exactly one piece, that of its row of R, so a join of the pieces one after
        the other is the whole join, and the window prunes even where the predicate's index does
        not know it.
        """
        for start in range(0, self.rows, rows):
            end = min(start + rows, self.rows)
            first, last = max(0, start - self.window), min(self.rows, end + self.window - 1)
            yield self.r.slice(start, end - start), self.s.slice(first, last - first)


def band(rows: int, window: int, selectivity: float = 1, seed: int = 1) -> Workload:
    """PanJoin's benchmark: a band on one 32-bit integer, uniform over 0 to 2^31 - 1."""
    made = PanJoin(rows, seed, window=window)
    # The share of pairs that match is 2 reach / 2^31, as the generator's values are uniform.
    reach = max(1, round(selectivity * 2**30 / window))
    return Workload(
        f"band, window 2^{math.log2(window):g}, selectivity {selectivity:g}",
        *(_numbered(_table(made, side).select(["value"])) for side in "rs"),
        (Band("value", "value", reach),),
        window,
        selectivity,
    )


def band_2d(rows: int, window: int, selectivity: float = 1, seed: int = 1) -> Workload:
    """SplitJoin's benchmark: a band on an integer and on a float, both uniform in 1 to 10^4.

    In the paper the bands reach 10 to either side, which is a selectivity of 0.28 at its window of
    2^16. Here they reach as far as the selectivity asks.
    """
    made = SplitJoin(rows, seed)
    reach = max(1, round(5_000 * math.sqrt(selectivity / window)))
    return Workload(
        f"band 2-D, window 2^{math.log2(window):g}, selectivity {selectivity:g}",
        _numbered(_table(made, "r").select(["x", "y"])),
        _numbered(_table(made, "s").select(["a", "b"])),
        (Band("x", "a", reach, around="s"), Band("y", "b", reach, around="s")),
        window,
        selectivity,
    )


def equality(rows: int, window: int, selectivity: float = 1, seed: int = 1) -> Workload:
    """Equality of 32-bit integers, uniform over as many values as the selectivity asks."""
    values = max(1, round(window / selectivity))
    numbers = np.arange(rows)
    r, s = (
        pa.table({"value": pa.array(uniform(seed, side, numbers) * values, pa.int32(), safe=False)})
        for side in "rs"
    )
    return Workload(
        f"equality, window 2^{math.log2(window):g}, selectivity {selectivity:g}",
        _numbered(r),
        _numbered(s),
        (Band("value", "value"),),
        window,
        selectivity,
    )


def _table(made: PanJoin | SplitJoin, side: str) -> pa.Table:
    return pa.Table.from_batches(made.batches(side))


def _numbered(table: pa.Table) -> pa.Table:
    seq = pa.array(np.arange(table.num_rows, dtype=np.int32))
    return table.combine_chunks().add_column(0, "seq", seq)
