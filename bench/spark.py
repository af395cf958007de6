"""Joins of tables on Spark: offloaded against Spark's own.

All on one core, in processor time of Spark's Java and of its Python workers together. Tables are
Parquet files, and all pairs end in a sum of hashes, by which they are compared. Java compiles what
runs often, so the median of the last of several runs counts.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from bench.peers.participant import processor_seconds
from bench.peers.spark_peer import one_core, query
from bench.peers.workloads import band

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS, WINDOW = 1 << 22, 1 << 20
WARMING, RUNS = 2, 3
HINTS = ("broadcast", "shuffle_hash")  # ways of Spark's own; the faster one is its best


def measure() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _tables(Path(folder))


def _tables(folder: Path) -> Iterator[str]:
    from eddyline.spark import stream_join

    spark = one_core()
    work = band(ROWS, WINDOW)
    frames = []
    for side, table in (("r", work.r), ("s", work.s)):
        pq.write_table(table, folder / f"{side}.parquet")
        frames.append(spark.read.parquet(str(folder / f"{side}.parquet")))

    def offloaded(read_files: str = "true") -> "DataFrame":
        spark.conf.set("spark.eddyline.readFiles", read_files)
        return stream_join(
            *frames, work.on, window=f"rows:{work.window}", time="seq",
            select="r.seq AS i, s.seq AS j", device="cpu",
        )  # fmt: skip

    ways: dict[str, Callable[[], DataFrame]] = {
        "files": offloaded,
        "rows": lambda: offloaded("false"),
    }
    ways |= {hint: partial(query, work, *frames, hint) for hint in HINTS}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(WARMING + RUNS):
        sums = set()
        for name, way in ways.items():
            began = processor_seconds()
            sums.add(way().selectExpr("count(*)", "bit_xor(xxhash64(i, j))").first())
            taken[name].append(processor_seconds() - began)
        assert len(sums) == 1, f"pairs differ: {sums}"
    times = {name: statistics.median(each[WARMING:]) for name, each in taken.items()}
    own = min(HINTS, key=lambda hint: times[hint])
    for name, what in (("files", "workers read files"), ("rows", "Spark reads them")):
        yield (
            f"{work.name}, {work.rows:,} rows a side, {what}: "
            f"{work.tuples / times[name] / 1e6:.2f} M rows per CPU-second, "
            f"{times[own] / times[name]:.2f} x Spark's binned rewrite ({own})"
        )
