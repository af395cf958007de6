"""Polars: bins and a hash join in the streaming engine, piece by piece, or its inequality join.

Bins are those of :mod:`bench.peers.duckdb_peer`. Where many partners match, the inequality join
(``join_where``) is faster on one band, since all it lets through is in the band.
"""

import os
from itertools import product

# Read when Polars is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import polars as pl
import pyarrow as pa

from bench.peers.participant import Job
from bench.peers.workloads import Band, Workload

__all__ = ["Polars"]

MANY = 8  # partners in the window from which on the inequality join is faster
PIECE = 1 << 16  # rows below which the work per query weighs more than what a piece saves


class Polars:
    """Polars on one thread, from Arrow tables to an Arrow table."""

    name = "Polars"

    def prepare(self, work: Workload) -> Job:
        def run() -> pa.Table:
            found = [
                query(work, r, s).collect(engine="streaming") for r, s in work.pieces(_piece(work))
            ]
            return pl.concat(found).to_arrow()

        return Job(run)

    def plan(self, work: Workload) -> str:
        r, s = next(work.pieces(_piece(work)))
        text = query(work, r, s).explain(engine="streaming")
        joins = {line.strip(" :") for line in text.splitlines() if "JOIN" in line}
        kind = next(join for join in sorted(joins) if not join.startswith("END"))
        condition = "bins" if not _ranged(work) and work.bands[0].reach else "values"
        return f"{kind.capitalize()} on {condition}, streaming engine"


def query(work: Workload, r: pa.Table, s: pa.Table) -> pl.LazyFrame:
    """Return the join of two tables as a lazy frame."""
    sides = pl.from_arrow(r).lazy(), pl.from_arrow(s).lazy().rename(lambda name: f"s_{name}")
    age = pl.col("seq") - pl.col("s_seq")
    window = age.is_between(1 - work.window, work.window)
    joined = _by_range(work, *sides) if _ranged(work) else _by_bins(work, *sides)
    return joined.filter(window).select(i="seq", j="s_seq")


def _ranged(work: Workload) -> bool:
    return len(work.bands) == 1 and work.bands[0].reach > 0 and work.selectivity >= MANY


def _piece(work: Workload) -> int:
    """Return the rows of a piece: the hash table is then about as large as the window."""
    return work.window if _ranged(work) else max(work.window // 4, PIECE)


def _by_range(work: Workload, r: pl.LazyFrame, s: pl.LazyFrame) -> pl.LazyFrame:
    (band,) = work.bands
    low, high = _bounds(work, band, pl.col(band.r))
    between = pl.col("low") <= pl.col("value_s"), pl.col("value_s") <= pl.col("high")
    return r.with_columns(low=low, high=high).join_where(
        s.with_columns(value_s=pl.col(f"s_{band.s}").cast(pl.Int64)), *between
    )


def _by_bins(work: Workload, r: pl.LazyFrame, s: pl.LazyFrame) -> pl.LazyFrame:
    joined = _binned(work, "r", r).join(_binned(work, "s", s), on="bin")
    conditions = [_condition(work, band) for band in work.bands if band.reach]
    return joined.filter(*conditions) if conditions else joined


def _binned(work: Workload, side: str, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return each row once per combination of its bins."""
    parts = []
    for alternative in product(*(_bins(work, n, side) for n in range(len(work.bands)))):
        # One key of all bins: several would be encoded as rows of bytes.
        (key, _), *others = alternative
        for bin, _ in others:
            key = key.cast(pl.Int64) * (1 << 32) + bin
        guards = [guard for _, guard in alternative if guard is not None]
        parts.append(frame.with_columns(bin=key).filter(*guards))
    return pl.concat(parts) if len(parts) > 1 else parts[0]


def _bins(work: Workload, number: int, side: str) -> list[tuple[pl.Expr, pl.Expr | None]]:
    """Return the bins of a row for a band, each with the condition under which it has that bin."""
    band = work.bands[number]
    column = pl.col(band.r if side == "r" else f"s_{band.s}")
    if not band.reach:
        return [(column, None)]
    width = 2 * band.reach + work.floating(band)  # wider for bounds that are rounded
    if side != work.doubled(number):
        return [((column // width).cast(pl.Int32), None)]
    low, high = ((bound // width).cast(pl.Int32) for bound in _bounds(work, band, column))
    return [(low, None), (high, low != high)]


def _bounds(work: Workload, band: Band, column: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    exact = column if work.floating(band) else column.cast(pl.Int64)
    return exact - band.reach, exact + band.reach


def _condition(work: Workload, band: Band) -> pl.Expr:
    r, s = pl.col(band.r), pl.col(f"s_{band.s}")
    if not work.floating(band):
        return (r - s).is_between(-band.reach, band.reach)
    middle, other = (r, s) if band.around == "r" else (s, r)
    return other.is_between(*_bounds(work, band, middle))
