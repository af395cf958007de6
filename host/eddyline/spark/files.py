"""Tables that are nothing but Parquet files: workers read these themselves.

Then no row has to go from Java to Python. That a frame is such a table is told by comparing its
plan with that of reading its files, so whatever else a frame does keeps it on the common way.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from eddyline.spark.parquet import local_path, may_read, opened, unfit
from eddyline.spark.plans import explained
from eddyline.spark.schemas import column

__all__ = ["RowGroups", "looked_at", "row_groups"]

PARTITION = 1 << 24  # bytes, before compression, that a task reads
UNFIT = -1
PARQUET = re.compile(r"Relation .*\[.*\] parquet")


@dataclass(frozen=True)
class RowGroups:
    """Row groups of Parquet files, each as a path, its number there and its bytes."""

    groups: list[tuple[str, int, int]]

    def numbers(self, spark: SparkSession) -> DataFrame:
        """Return the numbers of the groups, cut into tasks."""
        whole = sum(size for _, _, size in self.groups)
        tasks = max(1, min(len(self.groups), -(-whole // PARTITION)))
        return spark.range(len(self.groups), numPartitions=tasks)

    def reader(
        self, names: list[str]
    ) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return what reads the groups whose numbers it is given."""

        def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                yield from self.rows(names, batch["id"].to_pylist())

        return read

    def rows(self, names: list[str], numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some groups, one group after the other."""
        for number in numbers:
            path, group, _ = self.groups[number]
            with opened(path) as file:
                table = file.read_row_group(group, columns=names, use_threads=False)
                yield from table.combine_chunks().to_batches()


def row_groups(frame: DataFrame, wanted: pa.Schema) -> RowGroups | None:
    """Return where workers find the rows of a frame, or None if Spark has to make them."""
    spark = frame.sparkSession
    if not may_read(spark, wanted) or not (paths := _files(frame)):
        return None
    # Spark is asked what is in files only where they are known to be such: it logs what fails.
    found = looked_at(spark, paths, wanted)
    return RowGroups(found) if found is not None and _is_plain(frame, paths) else None


def looked_at(
    spark: SparkSession, paths: list[str], wanted: pa.Schema
) -> list[tuple[str, int, int]] | None:
    """Return the row groups of some files, or None if a file is not one for us.

    A worker looks at them: the driver, or its client, may not have them.
    """
    found = (
        spark.range(len(paths), numPartitions=1)
        .mapInArrow(_look(paths, wanted), "file long, number long, bytes long")
        .collect()
    )
    if any(size == UNFIT for _, _, size in found):
        return None
    return [(paths[file], number, size) for file, number, size in found]


def _files(frame: DataFrame) -> list[str]:
    """Return the files of a frame that may be all of their rows, or nothing."""
    level = frame.storageLevel
    files = [] if level.useMemory or level.useDisk else sorted(frame.inputFiles())
    if not files or not all(one.startswith("file:/") for one in files):
        return []
    *steps, source = explained(frame)
    harmless = all(one.startswith(("Project ", "SubqueryAlias ", "View ")) for one in steps)
    return [local_path(one) for one in files] if harmless and PARQUET.fullmatch(source) else []


def _is_plain(frame: DataFrame, paths: list[str]) -> bool:
    """Say whether a frame is all rows of some files, and nothing else."""
    try:
        return any(frame.sameSemantics(one) for one in _reads(frame, paths))
    except Exception:  # files that do not go together fail in many ways, not all of them PySpark's
        return False


def _reads(frame: DataFrame, paths: list[str]) -> Iterator[DataFrame]:
    """Yield the ways to read some files. Spark tells apart how a path is written."""
    spark = frame.sparkSession
    folders = {str(Path(one).parent) for one in paths}
    ways: list[list[str]] = [paths] if len(paths) > 1 else []
    for path in [*(folders if len(folders) == 1 else ()), *(paths if len(paths) == 1 else ())]:
        written = [path, f"file://{path}"]
        if Path(path).is_relative_to(Path.cwd()):
            written.append(str(Path(path).relative_to(Path.cwd())))
        ways += [[one + end] for one in written for end in ("", "/")]
    for way in ways:
        yield spark.read.schema(frame.schema).parquet(*way)
    schema = spark.read.parquet(*paths).schema
    if set(frame.columns) <= set(schema.names):
        columns = [column(name) for name in frame.columns]
        for way in ways:
            yield spark.read.schema(schema).parquet(*way).select(*columns)


def _look(
    paths: list[str], wanted: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def look(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for file in batch["id"].to_pylist():
                sizes = _sizes(paths[file], wanted)
                columns = [[file] * len(sizes), range(len(sizes)), sizes]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(one, pa.int64()) for one in columns], ["file", "number", "bytes"]
                )

    return look


def _sizes(path: str, wanted: pa.Schema) -> list[int]:
    """Return the sizes of a file's row groups, or a sign that it is not one for us."""
    try:
        with opened(path) as file:
            if unfit(file, wanted):
                return [UNFIT]
            groups = [file.metadata.row_group(one) for one in range(file.num_row_groups)]
            return [one.total_byte_size for one in groups]
    except (OSError, pa.ArrowException):  # not here, encrypted, or broken: Spark knows better
        return [UNFIT]
