"""Spark: its users' rewrite of a band join, bins that are exploded and joined by equality.

Bins are those of :mod:`bench.peers.duckdb_peer`. The window prunes through one more part of the
key, blocks of the row numbers: a row of R is in one block, a row of S reaches into at most two.
What the key lets through is filtered by the predicate and by the window.
"""

import contextlib
import io
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers.participant import Job
from bench.peers.workloads import Band, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Spark", "one_core", "query"]

FOLD = 1 << 20  # more than any column but the first has bins


class Spark:
    """Spark on one core, from tables cached in its memory to an Arrow table.

    ``hint`` is the join hint given to Spark's optimizer for the side of S.
    """

    name = "Spark"

    def __init__(self, hint: str = "broadcast") -> None:
        self.hint = hint

    def prepare(self, work: Workload) -> Job:
        sides = self._cached(work)
        # The query is made anew for each run: run again, it takes less than half the time, so it
        # seems to keep what it has broadcast.
        return Job(lambda: query(work, *sides, self.hint).toArrow())

    def plan(self, work: Workload) -> str:
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            query(work, *self._cached(work), self.hint).explain()
        operators = re.findall(r"\b(\w+Join|explode)\b", text.getvalue())
        condition = "bins" if any(band.reach for band in work.bands) else "values"
        return f"{', '.join(dict.fromkeys(operators))} on {condition} and blocks of the window"

    def _cached(self, work: Workload) -> "list[DataFrame]":
        sides = [one_core().createDataFrame(table).cache() for table in (work.r, work.s)]
        for side in sides:
            side.count()
        return sides


def query(work: Workload, r: "DataFrame", s: "DataFrame", hint: str) -> "DataFrame":
    """Return the join of two frames as a frame."""
    s = s.withColumnsRenamed({name: f"s_{name}" for name in s.columns})
    conditions = [
        f"(seq - s_seq) BETWEEN {1 - work.window} AND {work.window}",
        *(_condition(work, band) for band in work.bands if band.reach),
    ]
    joined = _keyed(work, "r", r).join(_keyed(work, "s", s).hint(hint), "key")
    return joined.where(" AND ".join(conditions)).selectExpr("seq AS i", "s_seq AS j")


def _keyed(work: Workload, side: str, frame: "DataFrame") -> "DataFrame":
    """Return each row once per combination of its bins and blocks, folded into one long key.

    A hash join on one long is Spark's fastest.
    """
    parts = [*(_bins(work, n, side) for n in range(len(work.bands))), _blocks(work, side)]
    spans = [FOLD] * len(work.bands) + [work.rows // (2 * work.window) + 2]
    key = ""
    for number, (part, span) in enumerate(zip(parts, spans, strict=True)):
        low, *high = part
        value = f"explode(sequence({low}, {high[0]}))" if high else low
        frame = frame.selectExpr("*", f"{value} AS part{number}")
        key = f"({key}) * {span} + part{number}" if number else f"CAST(part{number} AS BIGINT)"
    parted = [f"part{number}" for number in range(len(parts))]
    return frame.selectExpr("*", f"{key} AS key").drop(*parted)


def _bins(work: Workload, number: int, side: str) -> list[str]:
    """Return the bin of a row for a band, or its first and last one."""
    band = work.bands[number]
    column = band.r if side == "r" else f"s_{band.s}"
    if not band.reach:
        return [column]
    if work.floating(band):
        # Bounds are rounded, so bins are wider than the band by more than that.
        values, width = [column], f"CAST({2 * band.reach + 1} AS FLOAT)"
        reach = f"CAST({band.reach} AS FLOAT)"
        form = f"CAST(floor(({{}}) / {width}) AS BIGINT)"
    else:
        # Division rounds towards zero: stay above it.
        values, width = [f"CAST({column} AS BIGINT)"], 2 * band.reach
        reach = str(band.reach)
        form = f"({{}} + {width}) DIV {width}"
    if side == work.doubled(number):
        values = [f"{values[0]} - {reach}", f"{values[0]} + {reach}"]
    return [form.format(value) for value in values]


def _blocks(work: Workload, side: str) -> list[str]:
    """Return the block of a row, or its first and last one."""
    size = 2 * work.window
    if work.rows <= size:
        return ["0"]
    if side == "r":
        return [f"seq DIV {size}"]
    return [
        f"greatest(s_seq - {work.window - 1}, 0) DIV {size}",
        f"(s_seq + {work.window}) DIV {size}",
    ]


def _condition(work: Workload, band: Band) -> str:
    r, s = band.r, f"s_{band.s}"
    if not work.floating(band):
        return f"({r} - {s}) BETWEEN -{band.reach} AND {band.reach}"
    middle, other = (r, s) if band.around == "r" else (s, r)
    # An integer and a float would be added as doubles.
    reach = f"CAST({band.reach} AS FLOAT)"
    return f"{other} BETWEEN {middle} - {reach} AND {middle} + {reach}"


@cache
def one_core() -> Any:
    """Return a session on one core."""
    from eddyline.spark import session

    # Workers import what is defined here, and else what this process does.
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    settings = {
        "spark.driver.memory": "6g",
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    return session("bench", master="local[1]", config=settings)
