"""The last stop of the tour: a join of two streams that Spark refuses, on simulated gateware.

Trades and quotes drop into two folders as files, and meet where their prices are close.
"""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.cli.progress import Notice, grouped

__all__ = ["spark_tour"]

BAND = "abs(r.price - s.price) <= 2"
DEVICE = "sim:splitjoin?cores=4&window=1024"
ROWS, FILES, MILLISECONDS = 1200, 3, 60_000


def spark_tour(folder: Path) -> int:
    from eddyline.spark import session, stream_join

    shutil.rmtree(folder, ignore_errors=True)
    names = {"r": "trades", "s": "quotes"}
    for seed, name in enumerate(names.values(), start=1):
        _drop_files(folder / name, seed)
    notice = Notice()
    notice.show("starting Spark")
    spark = session("eddyline demo", master="local[2]")
    notice.clear()
    try:
        schema = "ts timestamp, price int, id long"
        r, s = (
            spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / name))
            .withWatermark("ts", "5 seconds")
            for name in names.values()
        )
        print("Spark, asked to join two streams on a band itself:")
        own = r.alias("r").join(s.alias("s")).where(BAND)
        spark.sparkContext.setLogLevel("OFF")  # or the refusal comes with a page of Java
        try:
            query = own.writeStream.format("noop").option("checkpointLocation", str(folder / "own"))
            query.start().awaitTermination()
        except Exception as error:
            told = [line for line in str(error).splitlines() if "not supported" in line]
            print(
                "  " + (told or str(error).splitlines())[0].partition("exception: ")[2].rstrip(";")
            )
        spark.sparkContext.setLogLevel("ERROR")
        print(f'\nstream_join(r, s, on="{BAND}", time="ts", window="time:10s",\n'
              f'            device="{DEVICE}"):', flush=True)  # fmt: skip
        joined = stream_join(r, s, on=BAND, time="ts", window="time:10s", device=DEVICE)
        writer = joined.writeStream.option("path", str(folder / "joined"))
        writer = writer.option("checkpointLocation", str(folder / "state"))
        notice.show("joining; the first time, compiling the gateware takes a minute or two")
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        notice.clear()
        result = spark.read.parquet(str(folder / "joined"))
        result.orderBy("r_ts", "s_ts").show(3, truncate=False)
        read = sum(one.numInputRows for one in running.recentProgress)
        batches = len([one for one in running.recentProgress if one.numInputRows])
        print(f"  {grouped(read)} rows in {batches} micro-batches gave "
              f"{grouped(result.count())} pairs, joined by simulated gateware\n")  # fmt: skip
    finally:
        spark.stop()
    return 0


def _drop_files(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, MILLISECONDS, ROWS)) + 1_600_000_000_000
    table = pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("ms", "UTC")),
            "price": pa.array(rng.integers(0, 1000, ROWS), pa.int32()),
            "id": pa.array(np.arange(ROWS)),
        }
    )
    for number in range(FILES):
        part = table.slice(number * ROWS // FILES, ROWS // FILES)
        name = folder / f"{number}.parquet"
        pq.write_table(part, name)
        os.utime(name, (1_600_000_000 + number,) * 2)  # Spark reads the oldest first
