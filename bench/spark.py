"""Joins on Spark: offloaded against Spark's own, streams against the same plumbing without a join.

All on one core, in processor time of Spark's Java and of its Python workers together. Tables are
Parquet files, and all pairs end in a sum of hashes, by which they are compared. Streams come from
Parquet files, a file of each side per micro-batch, and end in a sink that does nothing; what they
take to start and for the first file is not counted. Java compiles what runs often, so all is run
before it is measured: of tables, the median of the last of several runs counts; streams run twice,
for fewer files the first time, and the second time counts.
"""

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.participant import processor_seconds
from bench.peers.spark_peer import one_core, query
from bench.peers.workloads import band

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS, WINDOW = 1 << 22, 1 << 20
STREAM_ROWS, FILES = 1 << 20, 4  # the first file of a side is for warming up
WARMING, RUNS = 2, 3
# Where Spark's own join keeps rows by default. Ours, as any transformWithState, needs RocksDB.
IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
SCHEMA = "t timestamp, k int, v long"


def measure() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _tables(Path(folder))
        yield from _streams(Path(folder))


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
        "own": lambda: query(work, *frames, "broadcast"),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(WARMING + RUNS):
        sums = set()
        for name, way in ways.items():
            began = processor_seconds()
            sums.add(way().selectExpr("count(*)", "bit_xor(xxhash64(i, j))").first())
            taken[name].append(processor_seconds() - began)
        assert len(sums) == 1, f"pairs differ: {sums}"
    times = {name: statistics.median(each[WARMING:]) for name, each in taken.items()}
    for name, what in (("files", "workers read files"), ("rows", "Spark reads them")):
        yield (
            f"{work.name}, {work.rows:,} rows a side, {what}: "
            f"{work.tuples / times[name] / 1e6:.2f} M rows per CPU-second, "
            f"{times['own'] / times[name]:.2f} x Spark's binned rewrite"
        )


def _streams(folder: Path) -> Iterator[str]:
    from pyspark.sql import functions as F

    from bench.empty import stream_join_on_nothing
    from bench.peers.rowwise import COUNTED, Counting
    from eddyline.spark import stream_join
    from eddyline.spark.session import ROCKSDB

    for seed, side in enumerate("rs"):
        _write(folder / f"{side}-all", seed)
    spark = one_core()
    options: dict[str, Any] = {
        "on": "r.k = s.k", "window": "time:5s", "time": "t", "select": "r.v AS r, s.v AS s",
        "device": "cpu", "units": 1,
    }  # fmt: skip

    def sides() -> "list[DataFrame]":
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return [reader.parquet(str(folder / side)).withWatermark("t", "1 second") for side in "rs"]

    def own() -> "DataFrame":
        r, s = sides()
        within = "s.t >= r.t - INTERVAL 5 SECONDS AND s.t <= r.t + INTERVAL 5 SECONDS"
        joined = r.alias("r").join(s.alias("s"), F.expr(f"r.k = s.k AND {within}"))
        return joined.select(F.col("r.v").alias("r"), F.col("s.v").alias("s"))

    def rowwise() -> "DataFrame":
        r, s = sides()
        by_unit = r.union(s).withColumn("unit", F.lit(0)).groupBy("unit")
        return by_unit.transformWithState(Counting(), COUNTED, "append", "None")

    def shuffled() -> "DataFrame":
        r, s = sides()
        return r.union(s).repartition(1, "k")

    ways: dict[str, Callable[[], DataFrame]] = {
        "ours": lambda: stream_join(*sides(), **options),
        "own": own,
        "empty": lambda: stream_join_on_nothing(*sides(), **options),
        "rowwise": rowwise,
        "shuffled": shuffled,
    }
    rows = 2 * STREAM_ROWS * (FILES - 1) // FILES
    times: dict[str, float] = {}
    for files in (2, FILES):
        for name, way in ways.items():
            store = IN_MEMORY if name == "own" else ROCKSDB
            spark.conf.set("spark.sql.streaming.stateStore.providerClass", store)
            times[name] = _streamed(way, folder, files)
    rates = {name: rows / seconds / 1e6 for name, seconds in times.items()}
    yield (
        f"streaming equality, {rows:,} rows in {FILES - 1} files a side: {rates['ours']:.2f} M "
        f"rows per CPU-second, {rates['ours'] / rates['own']:.2f} x Spark's own join"
    )
    yield f"  {rates['ours'] / rates['empty']:.0%} of the same plumbing with an empty device"
    yield (
        f"  with the empty device {rates['empty']:.2f} M rows per CPU-second: "
        f"{rates['empty'] / rates['rowwise']:.1f} x transformWithState row by row, "
        f"{rates['empty'] / rates['shuffled']:.0%} of a shuffle of the same rows in Java alone"
    )


def _streamed(frame: "Callable[[], DataFrame]", folder: Path, files: int) -> float:
    """Return the processor time of so many files of each side, without the first."""
    for side in "rs":
        shutil.rmtree(folder / side, ignore_errors=True)
        (folder / side).mkdir()
    _arrive(folder, 0, 1)
    writer = frame().writeStream.format("noop")
    running = writer.option("checkpointLocation", tempfile.mkdtemp(dir=folder)).start()
    running.processAllAvailable()
    began = processor_seconds()
    _arrive(folder, 1, files)
    running.processAllAvailable()
    taken = processor_seconds() - began
    running.stop()
    return taken


def _arrive(folder: Path, first: int, end: int) -> None:
    for side in "rs":
        for number in range(first, end):
            name = f"{number}.parquet"
            os.link(folder / f"{side}-all" / name, folder / side / name)


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
        os.utime(folder / f"{number}.parquet", (10**9 + number,) * 2)  # files are read by age
