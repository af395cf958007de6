"""A streaming join to be killed: python -m tests.spark.killed_job FOLDER MASTER DEVICE QUERY."""

import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F

warnings.filterwarnings("ignore")

from eddyline.spark import join, session, stream_join  # noqa: E402
from eddyline.spark.joiner import Joiner  # noqa: E402
from tests.spark.conftest import QUIET  # noqa: E402
from tests.spark.streams import stream  # noqa: E402

BAND = "abs(r.x - s.x) <= 2"
SLOW = 0.3  # seconds between the join of a batch and the end of its task
STORING = 0.1  # seconds between the chunks that a unit stores and the rest of its state
QUERIES: dict[str, dict[str, Any]] = {
    "band": {"on": BAND, "units": 1},
    "units": {"on": BAND, "units": 2},
    "ranges": {"on": BAND, "units": 4, "subgroups": 2},
    "contrand": {"on": "r.x = s.x", "units": 4, "subgroups": 2},
    "theta": {"on": "r.x < s.x - 40", "units": 3},
    "distinct": {
        "on": BAND, "units": 2, "distinct": "time:7s",
        "select": "r.name, s.name AS other, result_time",
    },
    "rows": {"on": BAND, "window": "rows:20", "late": "late"},
}  # fmt: skip


class MarkedJoiner(Joiner):
    """Says so in a file, named as its process, while a unit joins and stores."""

    def __init__(self, folder: Path, request: Any):
        super().__init__(request)
        self._folder = folder

    def _join(self, *args: Any) -> Iterator[Any]:
        mark = self._folder / "joins" / str(os.getpid())
        mark.touch()
        yield from super()._join(*args)
        mark.unlink(missing_ok=True)

    def _write(self, *args: Any) -> None:
        time.sleep(STORING)
        super()._write(*args)


def at_work(batches: Iterable[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Say so in a file, named as this process, while a task has joined rows and has not ended.

    A task that has rows once more, since an attempt was lost, says that in a file that stays.
    """
    mark, task = folder / "work" / str(os.getpid()), TaskContext.get()
    for batch in batches:
        if batch.num_rows:
            mark.touch()
            if task.attemptNumber():
                (folder / "again" / str(task.taskAttemptId())).touch()
        yield batch
    if mark.exists():
        time.sleep(SLOW)
        mark.unlink(missing_ok=True)


def main(folder: Path, master: str, device: str, query: str) -> None:
    spark = session("killed", master=master, config={**QUIET, "spark.task.maxFailures": "8"})
    join.Joiner = partial(MarkedJoiner, folder)
    options = {"window": "time:9s", "select": "r.n AS r, s.n AS s", **QUERIES[query]}
    sides = (stream(spark, folder / name) for name in "rs")
    joined = stream_join(*sides, time="t", device=device, **options)
    if "result_time" in joined.columns:
        joined = joined.withColumn("result_time", F.unix_micros("result_time"))
    told = joined.mapInArrow(partial(at_work, folder=folder), joined.schema)
    writer = told.writeStream.format("parquet").option("path", str(folder / "out" / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "out" / "state"))
    writer.trigger(availableNow=True).start().awaitTermination()
    (folder / "done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
