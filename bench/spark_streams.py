"""Streams joined on Spark: ours, Spark's own join, and the same plumbing without a join.

All on one core, in processor time of Spark's Java and of its Python workers together. Streams come
from Parquet files, a file of each side per micro-batch, and end in a sink that does nothing. A
stream runs for days, so every way first runs through many small files and one of full size, for
Java to compile it; then files of full size come all at once, and what these take counts. All of
that is done twice, and the second time counts, because ways have much of their Java in common.
Before, each way of joining writes the pairs of some small files, which have to be the same.

A row of one side has a match on the other on average, or one in sixteen rows where it says so. An
empty device finds none; one that ``answers`` gives as many pairs as there are, whichever they are,
so that what is left is the join alone.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.participant import processor_seconds
from bench.peers.spark_peer import one_core

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Streams", "measure"]

WARMING = [1 << 15] * 10  # rows of a side in the files for Java to warm up
COMPARED = 4  # of them, whose pairs are compared
TRIGGERS = {1 << 18: 3, 1 << 20: 2}  # rows of a side in a file, and files that are measured
ROUNDS = 2
WINDOW, SPAN = 5, 25  # seconds: of the window, and of a file of full size
SPARSE = 16
# Where Spark's own join keeps rows by default. Ours, as any transformWithState, needs RocksDB.
IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
SCHEMA = "t timestamp, k int, few int, v long"
SUM = ("count(*)", "bit_xor(xxhash64(r, s))")
JOINS = ("ours", "rows", "own")


class Streams:
    """Files of two sides that arrive in a folder, and what is made of them.

    Parameters
    ----------
    folder : Path
        An empty one.
    sizes : list of int
        Rows of a side, file by file; the last is of full size.
    """

    def __init__(self, folder: Path, sizes: list[int]):
        self._folder = folder
        self._sizes = sizes
        self._spark = one_core()
        for seed, side in enumerate("rs"):
            self._write(folder / f"{side}-all", seed)
        self.ways: dict[str, Callable[[], DataFrame]] = {
            "ours": self._ours,
            "rows": lambda: self._by_rows(self._ours),
            "own": self._own,
            "empty": self._empty,
            "answers": lambda: self._empty(answers=True),
            "empty rows": lambda: self._by_rows(self._empty),
            "answers rows": lambda: self._by_rows(lambda: self._empty(answers=True)),
            "sparse": lambda: self._ours(on="r.few = s.few"),
            "sparse empty": lambda: self._empty(on="r.few = s.few"),
            "sparse rows": lambda: self._by_rows(lambda: self._ours(on="r.few = s.few")),
            "rowwise": self._rowwise,
            "shuffled": self._shuffled,
        }

    def seconds(self, name: str, warming: int) -> float:
        """Return the processor time of all files behind the first, which are for warming up."""
        self._clear()
        self._arrive(0, warming)
        running = self._writer(name).format("noop").start()
        running.processAllAvailable()
        began = processor_seconds()
        self._arrive(warming, len(self._sizes))
        running.processAllAvailable()
        taken = processor_seconds() - began
        running.stop()
        return taken

    def pairs(self, name: str, files: int) -> Any:
        """Return a sum of the pairs of the first files."""
        self._clear()
        self._arrive(0, files)
        out = tempfile.mkdtemp(dir=self._folder)
        writer = self._writer(name).format("parquet").option("path", out)
        writer.trigger(availableNow=True).start().awaitTermination()
        return self._spark.read.parquet(out).selectExpr(*SUM).first()

    def _writer(self, name: str) -> Any:
        from eddyline.spark.session import ROCKSDB

        store = IN_MEMORY if name == "own" else ROCKSDB
        self._spark.conf.set("spark.sql.streaming.stateStore.providerClass", store)
        checkpoint = tempfile.mkdtemp(dir=self._folder)
        return self.ways[name]().writeStream.option("checkpointLocation", checkpoint)

    def _sides(self) -> "list[DataFrame]":
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        folders = [str(self._folder / side) for side in "rs"]
        return [reader.parquet(one).withWatermark("t", "1 second") for one in folders]

    def _ours(self, **others: Any) -> "DataFrame":
        from eddyline.spark import stream_join

        return stream_join(*self._sides(), **_options(**others))

    def _empty(self, **others: Any) -> "DataFrame":
        from bench.empty import stream_join_on_nothing

        return stream_join_on_nothing(*self._sides(), **_options(**others))

    def _by_rows(self, way: "Callable[[], DataFrame]") -> "DataFrame":
        """Return a join whose workers do not read files."""
        self._spark.conf.set("spark.eddyline.readFiles", "false")
        try:
            return way()
        finally:
            self._spark.conf.unset("spark.eddyline.readFiles")

    def _own(self) -> "DataFrame":
        from pyspark.sql import functions as F

        r, s = self._sides()
        reach = f"INTERVAL {WINDOW} SECONDS"
        on = f"r.k = s.k AND s.t >= r.t - {reach} AND s.t <= r.t + {reach}"
        joined = r.alias("r").join(s.alias("s"), F.expr(on))
        return joined.select(F.col("r.v").alias("r"), F.col("s.v").alias("s"))

    def _rowwise(self) -> "DataFrame":
        from pyspark.sql import functions as F

        from bench.peers.rowwise import COUNTED, Counting

        r, s = (side.drop("few") for side in self._sides())
        by_unit = r.union(s).withColumn("unit", F.lit(0)).groupBy("unit")
        return by_unit.transformWithState(Counting(), COUNTED, "append", "None")

    def _shuffled(self) -> "DataFrame":
        r, s = (side.drop("few") for side in self._sides())
        return r.union(s).repartition(1, "k")

    def _clear(self) -> None:
        for side in "rs":
            shutil.rmtree(self._folder / side, ignore_errors=True)
            (self._folder / side).mkdir()

    def _arrive(self, first: int, end: int) -> None:
        for side in "rs":
            for number in range(first, end):
                name = f"{number}.parquet"
                os.link(self._folder / f"{side}-all" / name, self._folder / side / name)

    def _write(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        rng = np.random.default_rng(seed)
        count, full = sum(self._sizes), self._sizes[-1]
        values = full * 2 * WINDOW // SPAN
        t = np.sort(rng.integers(0, SPAN * 10**6 * count // full, count)) + 10**15
        table = pa.table(
            {
                "t": pa.array(t, pa.timestamp("us", "UTC")),
                "k": pa.array(rng.integers(0, values, count), pa.int32()),
                "few": pa.array(rng.integers(0, values * SPARSE, count), pa.int32()),
                "v": np.arange(count),
            }
        )
        first = 0
        for number, rows in enumerate(self._sizes):
            name = folder / f"{number}.parquet"
            pq.write_table(table.slice(first, rows), name)
            os.utime(name, (10**9 + number,) * 2)  # files are read by age
            first += rows


def measure() -> Iterator[str]:
    for full, files in TRIGGERS.items():
        with tempfile.TemporaryDirectory() as folder:
            sizes = [*WARMING, full, *[full] * files]
            streams = Streams(Path(folder), sizes)
            sums = {name: streams.pairs(name, COMPARED) for name in JOINS}
            assert len(set(sums.values())) == 1, f"pairs differ: {sums}"
            yield f"{2 * full:,} rows per micro-batch, {files} of them, after {len(WARMING) + 1}"
            # Row by row takes minutes, and gains nothing where there are more rows.
            names = [one for one in streams.ways if one != "rowwise" or full == min(TRIGGERS)]
            taken: dict[str, float] = {}
            for _ in range(ROUNDS):
                for name in names:
                    taken[name] = streams.seconds(name, len(WARMING) + 1)
            rates = {name: 2 * full * files / seconds / 1e6 for name, seconds in taken.items()}
            for name, rate in rates.items():
                yield f"  {name}: {taken[name]:.1f} CPU-seconds, {rate:.3f} M rows in each"
            yield from _compared(rates)


def _compared(rates: dict[str, float]) -> Iterator[str]:
    for name, empty, answers, who in (
        ("ours", "empty", "answers", "workers read files"),
        ("rows", "empty rows", "answers rows", "Spark reads rows"),
    ):
        yield (
            f"  {who}: {rates[name] / rates['own']:.2f} x Spark's own join, "
            f"{rates[name] / rates[answers]:.0%} of a device that answers without joining, "
            f"{rates[name] / rates[empty]:.0%} of one without answers, which is "
            f"{rates[empty] / rates['shuffled']:.0%} of a shuffle of the same rows in Java alone"
        )
    yield (
        f"  one match in {SPARSE} rows: {rates['sparse'] / rates['sparse empty']:.0%} of the empty "
        f"device, {rates['sparse rows'] / rates['empty rows']:.0%} where Spark reads rows"
    )
    if "rowwise" in rates:
        by_row = rates["empty rows"] / rates["rowwise"]
        yield f"  the plumbing is {by_row:.1f} x transformWithState row by row"


def _options(**others: Any) -> dict[str, Any]:
    return {
        "on": "r.k = s.k", "window": f"time:{WINDOW}s", "time": "t",
        "select": "r.v AS r, s.v AS s", "device": "cpu", "units": 1, **others,
    }  # fmt: skip
