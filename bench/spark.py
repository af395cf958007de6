"""Joins on Spark: offloaded against Spark's own, streams against the same plumbing without a join.

All on one core, in processor time of Spark's Java and of its Python workers together. The batch
join begins with tables in Spark's cache and ends with an Arrow table. Streams come from Parquet
files, a file of each side per micro-batch, and end in a sink that does nothing.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.participant import Job, processor_seconds
from bench.peers.participant import measure as measured
from bench.peers.spark_peer import Spark, one_core
from bench.peers.workloads import Workload, band

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS, WINDOW = 1 << 19, 1 << 18
STREAM_ROWS, FILES = 200_000, 4
# Units and subgroups of a biclique, or rows and columns of a matrix.
CUTS: list[tuple[Any, int | None]] = [
    (1, 1), (4, 1), (4, 2), (4, 4), (16, 1), (16, 4), (16, 16), ((2, 2), None), ((4, 4), None)
]  # fmt: skip
SCHEMA = "t timestamp, k int, v long"


class Offloaded(Spark):
    """The same frames, joined by ``stream_join``."""

    name = "stream_join"

    def prepare(self, work: Workload) -> Job:
        from eddyline.spark import stream_join

        sides = self._cached(work)
        on = " AND ".join(one.on for one in work.bands)
        options: dict[str, Any] = {"window": f"rows:{work.window}", "time": "seq"}
        select = "r.seq AS i, s.seq AS j"
        return Job(
            lambda: stream_join(*sides, on, select=select, device="cpu", **options).toArrow()
        )


def measure() -> Iterator[str]:
    work = band(ROWS, WINDOW)
    ours, theirs = measured(Offloaded(), work), measured(Spark(), work)
    assert ours.pairs == theirs.pairs
    yield (
        f"{work.name}, {work.rows:,} rows a side: {work.tuples / ours.cpu_seconds / 1e6:.2f} M "
        f"rows per CPU-second, {theirs.cpu_seconds / ours.cpu_seconds:.2f} x Spark's binned rewrite"
    )
    with tempfile.TemporaryDirectory() as folder:
        yield from _streams(Path(folder))
    yield from _shares()


def _streams(folder: Path) -> Iterator[str]:
    from pyspark.sql import functions as F

    from eddyline.spark import stream_join

    for seed, side in enumerate("rs"):
        _write(folder / side, seed)
    spark = one_core()

    def sides() -> "list[DataFrame]":
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return [reader.parquet(str(folder / side)).withWatermark("t", "1 second") for side in "rs"]

    def offloaded() -> "DataFrame":
        return stream_join(
            *sides(), "r.k = s.k", window="time:5s", time="t", select="r.v AS r, s.v AS s",
            device="cpu", units=1,
        )  # fmt: skip

    def own() -> "DataFrame":
        r, s = sides()
        within = "s.t >= r.t - INTERVAL 5 SECONDS AND s.t <= r.t + INTERVAL 5 SECONDS"
        joined = r.alias("r").join(s.alias("s"), F.expr(f"r.k = s.k AND {within}"))
        return joined.select(F.col("r.v").alias("r"), F.col("s.v").alias("s"))

    def empty() -> "DataFrame":
        return stream_join(
            *sides(), "r.k = s.k AND r.v < 0 AND s.v < 0", window="time:0s", time="t",
            select="r.v AS r, s.v AS s", device="cpu", units=1,
        )  # fmt: skip

    rows = 2 * STREAM_ROWS
    times = {
        name: _streamed(frame, folder / name)
        for name, frame in (("ours", offloaded), ("own", own), ("empty", empty))
    }
    yield (
        f"streaming equality, {rows:,} rows in {FILES} micro-batches: "
        f"{rows / times['ours'] / 1e6:.2f} M rows per CPU-second, "
        f"{times['own'] / times['ours']:.2f} x Spark's own join"
    )
    yield f"  {times['empty'] / times['ours']:.0%} of the same plumbing with hardly a pair to find"


def _streamed(frame: "Callable[[], DataFrame]", folder: Path) -> float:
    """Return the processor time of the second of two runs."""
    for number in range(2):
        writer = frame().writeStream.format("noop").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / str(number)))
        began = processor_seconds()
        writer.start().awaitTermination()
        taken = processor_seconds() - began
        time.sleep(0.2)
    return taken


def _shares() -> Iterator[str]:
    """Give the stored and sent bytes of both models (BiStream, figures 6, 10 and 11)."""
    from pyspark.sql import functions as F

    from eddyline.spark.request import make_request
    from eddyline.spark.router import routed

    spark = one_core()
    tables = [
        spark.range(100_000).selectExpr("CAST(id AS INT) AS k", f"id * {n} AS v") for n in (3, 5)
    ]
    plain = None
    for units, subgroups in CUTS:
        request = make_request(
            spark, *tables, "r.k = s.k", window="unbounded", time=None, order="none", select=None,
            device="cpu", units=units, subgroups=subgroups, streaming=False,
        )  # fmt: skip
        sent = routed(tables[0], request, "r").union(routed(tables[1], request, "s"))
        size = F.length("payload")
        by_unit = sent.groupBy("unit").agg(
            F.sum(F.when(F.col("stores"), size).otherwise(0)).alias("stored"),
            F.sum(size).alias("sent"),
        )
        found = by_unit.agg(F.max("stored"), F.sum("stored"), F.sum("sent")).first()
        plain = plain or found[1]
        model = "matrix" if isinstance(units, tuple) else "biclique"
        number = units[0] * units[1] if isinstance(units, tuple) else units
        yield (
            f"{model}, {number} units, {subgroups or '-'} subgroups: largest unit stores "
            f"{found[0] / plain:.3f} of the input, all {found[1] / plain:.2f}, "
            f"{found[2] / plain:.2f} are sent"
        )


def _write(folder: Path, seed: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, 100 * 10**6, STREAM_ROWS)) + 10**15
    table = pa.table(
        {
            "t": pa.array(t, pa.timestamp("us", "UTC")),
            "k": pa.array(rng.integers(0, STREAM_ROWS // 10, STREAM_ROWS), pa.int32()),
            "v": np.arange(STREAM_ROWS),
        }
    )
    for number in range(FILES):
        part = STREAM_ROWS // FILES
        pq.write_table(table.slice(number * part, part), folder / f"{number}.parquet")
        time.sleep(0.01)  # files are read in the order of their age
