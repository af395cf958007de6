"""Rows for tests, as tables and as files that a stream reads one by one, and what is expected."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

SCHEMA = "n long NOT NULL, t timestamp NOT NULL, x int, name string"
BEGIN = 10**15  # microseconds since 1970


@dataclass
class Rows:
    """Rows of one side. Times are microseconds, and run backwards by up to ``disorder``."""

    n: np.ndarray
    t: np.ndarray
    x: np.ndarray

    @classmethod
    def random(cls, seed: int, count: int, *, span: int = 60 * 10**6, disorder: int = 0) -> "Rows":
        rng = np.random.default_rng(seed)
        t = np.sort(rng.integers(0, span, count)) + rng.integers(0, disorder + 1, count)
        return cls(np.arange(count), BEGIN + t, rng.integers(0, 50, count))

    def at(self, places: np.ndarray | slice) -> "Rows":
        return Rows(self.n[places], self.t[places], self.x[places])

    def table(self) -> pa.Table:
        return pa.table(
            {
                "n": pa.array(self.n, pa.int64()),
                "t": pa.array(self.t, pa.timestamp("us", "UTC")),
                "x": pa.array(self.x, pa.int32(), mask=self.x == 0),
                "name": pa.array([f"name {x % 7}" for x in self.x.tolist()]),
            }
        )

    def frame(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(self.table(), SCHEMA)

    def write(self, folder: Path, files: int, *, first: int = 0) -> None:
        """Write files in the order of rows; their ages tell a stream which comes first."""
        folder.mkdir(exist_ok=True)
        table = self.table()
        for number, part in enumerate(np.array_split(np.arange(len(self.n)), files), start=first):
            name = folder / f"{number:03}.parquet"
            hidden = folder / f".{number:03}"
            pq.write_table(table.take(pa.array(part)), hidden)
            os.utime(hidden, (10**9 + 10 * number,) * 2)
            hidden.rename(name)


def stream(spark: SparkSession, folder: Path, *, delay: str | None = "5 seconds") -> DataFrame:
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return frame.withWatermark("t", delay) if delay else frame


def finished(frame: DataFrame, out: Path) -> list[tuple]:
    """Run a query over all that is there, and return all rows that it has ever written."""
    writer = frame.writeStream.format("parquet").option("path", str(out / "rows"))
    query = writer.option("checkpointLocation", str(out / "state")).trigger(availableNow=True)
    query.start().awaitTermination()
    return written(frame.sparkSession, out)


def written(spark: SparkSession, out: Path) -> list[tuple]:
    """Return all rows that a query has written, sorted by what they look like if any has NULL."""
    rows = [tuple(row) for row in spark.read.parquet(str(out / "rows")).collect()]
    return sorted(rows, key=repr if any(None in row for row in rows) else None)


def counted(folder: Path) -> Counter[str]:
    """Return what all worker processes have counted (``spark.eddyline.metrics``)."""
    found: Counter[str] = Counter()
    for name in folder.glob("*.json"):
        found.update(json.loads(name.read_text()))
    return found


def pairs(frame: DataFrame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def brute(r: Rows, s: Rows, matches: np.ndarray, window: tuple[int, int]) -> list[tuple]:
    """Return the pairs (r.n, s.n) that match and are in the window of the earlier row."""
    age = s.t[None, :] - r.t[:, None]
    inside = np.where(age >= 0, age <= window[0], -age <= window[1])
    known = (r.x[:, None] != 0) & (s.x[None, :] != 0)  # zeros are NULL
    return sorted(zip(*(a.tolist() for a in np.nonzero(matches & inside & known)), strict=True))


def unlike_before(
    r: Rows, s: Rows, found: list[tuple], span: int, *, until: float = np.inf
) -> Iterator[tuple]:
    """Yield name, name and time of pairs that nothing equal was handed over before."""
    timed = sorted((int(max(r.t[i], s.t[j])), int(r.x[i]) % 7, int(s.x[j]) % 7) for i, j in found)
    last: dict[tuple, int] = {}
    for t, *names in timed:
        value = tuple(f"name {name}" for name in names)
        if t <= until and (value not in last or t - last[value] > span):
            last[value] = t
            yield (*value, t)


def band(r: Rows, s: Rows, width: int) -> np.ndarray:
    return np.abs(r.x[:, None] - s.x[None, :]) <= width


def seconds(*amounts: float) -> tuple[int, ...]:
    return tuple(int(one * 10**6) for one in amounts)
