"""A band join on Spark as it is written, without bins: how far it gets, beside the offloaded one.

The tables are those of ``bench.spark``, and processor time is counted in the same way, on one core.
Spark compares every pair of rows; S is broadcast, which is its better way to do that. R is cut into
many parts, and the query is stopped after a budget of processor time. What all parts would take is
worked out from those that are done.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from bench.peers.participant import processor_seconds
from bench.peers.spark_peer import one_core
from bench.peers.workloads import band
from bench.spark import ROWS, WINDOW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUDGET = 120.0  # seconds of the processor
PARTS = 1 << 14


def measure(rows: int = ROWS, window: int = WINDOW, budget: float = BUDGET) -> Iterator[str]:
    from eddyline.spark import stream_join

    work = band(rows, window)
    spark = one_core()
    with tempfile.TemporaryDirectory() as folder:
        frames = []
        for side, table in (("r", work.r), ("s", work.s)):
            pq.write_table(table, Path(folder) / f"{side}.parquet")
            frames.append(spark.read.parquet(str(Path(folder) / f"{side}.parquet")))
        r, s = frames
        plain = r.repartition(PARTS).alias("r").join(s.alias("s").hint("broadcast"))
        # As differences: values go up to 2^31 - 1, and Spark ends a query whose bounds overflow.
        (one,) = work.bands
        near = f"(r.{one.r} - s.{one.s}) BETWEEN {-one.reach} AND {one.reach}"
        within = f"(r.seq - s.seq) BETWEEN {1 - work.window} AND {work.window}"
        offloaded = stream_join(
            r, s, work.on, window=f"rows:{work.window}", time="seq", select="r.seq", device="cpu"
        )
        began = processor_seconds()
        pairs = offloaded.count()
        ours = processor_seconds() - began
        yield (
            f"{work.name}, {work.rows:,} rows a side: {pairs:,} pairs offloaded, in {ours:.0f} "
            "CPU-seconds with the start of Python"
        )
        yield _plain(plain.where(f"{near} AND {within}"), budget, pairs, ours)


def _plain(frame: "DataFrame", budget: float, pairs: int, ours: float) -> str:
    """Count the rows of a frame within a budget, and say how that went."""
    found: list[int] = []
    failed: list[Exception] = []

    def count() -> None:
        try:
            found.append(frame.count())
        except Exception as error:
            failed.append(error)

    context = frame.sparkSession.sparkContext
    began = processor_seconds()
    counting = threading.Thread(target=count)
    counting.start()
    spent = done = 0.0
    while counting.is_alive() and spent < budget:
        time.sleep(0.1)
        spent, done = processor_seconds() - began, max(done, _done(context))
    stopped = counting.is_alive()
    while counting.is_alive():  # a job that has not begun yet cannot be cancelled
        context.cancelAllJobs()
        counting.join(0.1)
    if failed and not stopped:
        raise failed[0]
    if found:
        assert found == [pairs], f"pairs differ: {found[0]} and {pairs}"
        return f"  Spark's plain query: {spent:.0f} CPU-seconds, {spent / ours:.1f} x"
    all_ = f", so all would take about {spent / done / 3600:.0f} hours" if done else ""
    return (
        f"  Spark's plain query did not finish: after {spent:.0f} CPU-seconds, "
        f"{done:.3%} of the rows of R had met S{all_}"
    )


def _done(context: object) -> float:
    """Return the share of the parts of R that have been compared with S."""
    tracker = context.statusTracker()  # type: ignore[attr-defined]
    stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
    joining = [one for one in stages if one and one.numTasks == PARTS]
    return max((one.numCompletedTasks / PARTS for one in joining), default=0)
