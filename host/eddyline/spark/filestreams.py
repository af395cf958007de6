"""Streams that are nothing but Parquet files: workers read these themselves.

Spark finds the files, keeps the log of which file belongs to which batch, and reads the times of
all rows for its watermark. Of each file it hands over the first row, and of that only the file's
name; the worker to whom it comes reads the rows. So a batch that is replayed has the same rows.

That a stream is such a one is told by its plan, as Spark explains it: reading files, a watermark,
and columns chosen, with nothing computed. Whatever else is in it keeps it on the common way.
"""

import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eddyline.spark.files import looked_at
from eddyline.spark.parquet import is_local, local_path, may_read, read_rows
from eddyline.spark.plans import ATTRIBUTES, HARMLESS, explained
from eddyline.spark.schemas import WATERMARK, column

__all__ = ["FILE", "file_names", "is_plain_stream", "reader"]

FILE = "file"
METADATA = "_metadata"  # what Spark knows of a row's file, in a column that it hides
ROW = f"{METADATA}.row_index"
SAMPLE = 16  # files that are looked at while a query is built
NEVER = -(2**63)  # microseconds: no time is before
WATERMARKED = re.compile(r"EventTimeWatermark [0-9a-f-]+, (\w+)#\d+: \w+, [\w. ]+")
SOURCE = re.compile(rf"StreamingRelation FileSource\[([^\[\]]+)\], {ATTRIBUTES}(?:, name=\S+)?")


def is_plain_stream(frame: DataFrame, wanted: pa.Schema) -> bool:
    """Say whether workers may read the files of a stream: its rows are theirs, as they are.

    One file at least has to be there already, so that it can be looked at.
    """
    spark = frame.sparkSession
    if not may_read(spark, wanted) or METADATA in map(str.lower, frame.columns):
        return False
    folder = _folder(explained(frame), _with_watermark(frame))
    if folder is None:
        return False
    try:
        files = sorted(spark.read.schema(frame.schema).parquet(folder).inputFiles())[-SAMPLE:]
        paths = [local_path(one) for one in files]
        if not files or not all(map(is_local, files)) or looked_at(spark, paths, wanted) is None:
            return False
        # Only rows of Parquet files have such a number. Asked of others, PySpark logs an error.
        frame.select(ROW).schema  # noqa: B018
    except PySparkException:  # there is no such number, or the folder is read in another way
        return False
    return True


def file_names(frame: DataFrame) -> DataFrame:
    """Return the name of every file that has rows, once. Watermarks see all rows all the same."""
    first = F.col(ROW) == 0
    for name in _with_watermark(frame):
        # Spark would leave out rows before it looks at their times, if this did not ask for them.
        first |= column(name) < F.timestamp_micros(F.lit(NEVER))
    return frame.where(first).select(F.col(f"{METADATA}.file_path").alias(FILE))


def reader(wanted: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what reads the files whose names it is given."""

    def read(names: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in names:
            for name in batch[FILE].to_pylist():
                yield from read_rows(name, wanted)

    return read


def _with_watermark(frame: DataFrame) -> list[str]:
    return [one.name for one in frame.schema if WATERMARK in one.metadata]


def _folder(plan: list[str], with_watermark: list[str]) -> str | None:
    """Return what is read by a plan that does nothing else, or None."""
    marked = [found[1] for line in plan if (found := WATERMARKED.fullmatch(line))]
    steps = [line for line in plan[:-1] if not WATERMARKED.fullmatch(line)]
    source = SOURCE.fullmatch(plan[-1]) if plan else None
    plain = sorted(marked) == sorted(with_watermark) and all(map(HARMLESS.fullmatch, steps))
    return source[1] if source and plain else None
