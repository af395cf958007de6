"""DuckDB: bins and a hash join, piece by piece; see docs/engines-peers.md for what else was tried.

A band join becomes an equi-join of bins, as wide as the band: a row of one side is in one bin, a
row of the other reaches into at most two and is joined in both. Two bands take turns in which side
is joined twice. What the bins let through is filtered by the predicate and by the window. The
window is one expression of both numbers, or DuckDB would join by it instead of by the values.
"""

import re
from itertools import product

import duckdb
import pyarrow as pa

from bench.peers.participant import Job
from bench.peers.workloads import Band, Workload

__all__ = ["DuckDB"]

MANY = 8  # partners in the window from which on forbidden pairs weigh more than rows


class DuckDB:
    """DuckDB on one thread, from Arrow tables to an Arrow table."""

    name = "DuckDB"

    def prepare(self, work: Workload) -> Job:
        database = _open()
        query = statement(work)

        def run() -> pa.Table:
            found = []
            for r, s in work.pieces(_piece(work)):
                database.register("r", r)
                database.register("s", s)
                found.append(database.sql(query).to_arrow_table())
            return pa.concat_tables(found)

        return Job(run)

    def plan(self, work: Workload) -> str:
        database = _open()
        r, s = next(work.pieces(_piece(work)))
        database.register("r", r)
        database.register("s", s)
        ((_, text),) = database.execute(f"EXPLAIN {statement(work)}").fetchall()
        operators = re.findall(r"─ ([A-Z][\w ]*?Join|Union|Filter) ─", text)
        condition = "bins" if any(band.reach for band in work.bands) else "values"
        return f"{', '.join(dict.fromkeys(operators))} on {condition}"


def _piece(work: Workload) -> int:
    """Return the rows of a piece.

    Smaller ones let fewer pairs meet that the window forbids, which counts where many match, but
    have each row of S in more of them.
    """
    return max(1, work.window // 2) if work.selectivity >= MANY else 2 * work.window


def _open() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    database.execute("SET threads = 1")
    database.execute("SET preserve_insertion_order = false")
    return database


def statement(work: Workload) -> str:
    """Return the join of the tables ``r`` and ``s`` as SQL."""
    sides = {
        side: " UNION ALL ".join(
            f"SELECT *, {_folded(bins)} AS bin FROM {side} WHERE {' AND '.join(guards) or 'true'}"
            for alternative in product(*(_bins(work, n, side) for n in range(len(work.bands))))
            for bins, guards in [_parted(alternative)]
        )
        for side in "rs"
    }
    conditions = ["r.bin = s.bin", *(_condition(work, band) for band in work.bands if band.reach)]
    window = f"(r.seq - s.seq) BETWEEN {1 - work.window} AND {work.window}"
    return (
        f"SELECT r.seq AS i, s.seq AS j FROM ({sides['r']}) r JOIN ({sides['s']}) s "
        f"ON {' AND '.join([*conditions, window])}"
    )


def _bins(work: Workload, number: int, side: str) -> list[tuple[str, str]]:
    """Return the bins of a row for a band, each with the condition under which it has that bin."""
    band = work.bands[number]
    column = band.r if side == "r" else band.s
    if not band.reach:
        return [(column, "")]
    if work.floating(band):
        # Bounds are rounded, so bins are wider than the band by more than that.
        def bin_of(value: str) -> str:
            return f"floor(({value}) / {2 * band.reach + 1})::INTEGER"
    else:

        def bin_of(value: str) -> str:
            return f"(({value}) // {2 * band.reach})::INTEGER"

    if side != work.doubled(number):
        return [(bin_of(column), "")]
    exact = column if work.floating(band) else f"{column}::BIGINT"
    low, high = bin_of(f"{exact} - {band.reach}"), bin_of(f"{exact} + {band.reach}")
    return [(low, ""), (high, f"{low} <> {high}")]


def _parted(alternative: tuple[tuple[str, str], ...]) -> tuple[list[str], list[str]]:
    return [bin for bin, _ in alternative], [guard for _, guard in alternative if guard]


def _folded(bins: list[str]) -> str:
    """Make one key of several bins: a hash join on one column is faster."""
    key, *others = bins
    for other in others:
        key = f"({key})::BIGINT * {1 << 32} + {other}"
    return key


def _condition(work: Workload, band: Band) -> str:
    # Differences of integers that are not negative fit, and are faster than bounds of 64 bits.
    if work.floating(band):
        return band.on
    return f"(r.{band.r} - s.{band.s}) BETWEEN -{band.reach} AND {band.reach}"
