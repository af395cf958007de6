"""Parquet files that Arrow reads in a worker as Spark would."""

from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from eddyline.errors import DataError
from eddyline.spark import settings
from eddyline.spark.schemas import conformed

__all__ = ["is_local", "local_path", "may_read", "opened", "read_rows", "unfit"]

INSTANT = pa.timestamp("us", "UTC")
# Before, calendars and time zones of other writers may differ from those of today.
OLD = -25567  # days until 1970, as of 1900
DAY = 86_400_000_000  # microseconds


def may_read(spark: SparkSession, wanted: pa.Schema) -> bool:
    """Say whether settings and columns are such that files may be read by Arrow."""
    expected = {
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.fieldId.read.enabled": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
    }
    return (
        settings.text(spark, "readFiles", "true") == "true"
        and all(spark.conf.get(name, value) == value for name, value in expected.items())
        and not any(pa.types.is_nested(one.type) for one in wanted)
    )


def local_path(name: str) -> str:
    """Return the path of a file that Spark calls ``file:/…``."""
    return unquote(urlsplit(name).path)


def opened(path: str) -> pq.ParquetFile:
    return pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit="us")


def unfit(file: pq.ParquetFile, wanted: pa.Schema) -> str | None:
    """Return why Arrow does not read these columns of a file as Spark does, or None if it does."""
    notes = file.metadata.metadata or {}
    version = notes.get(b"org.apache.spark.version")
    if version and version[:1] in b"12":
        return "it was written by an old Spark"
    if any(name.startswith(b"org.apache.spark.legacy") for name in notes):
        return "its times are of another calendar"
    schema = file.schema_arrow
    leaves = [file.schema.column(one) for one in range(len(file.schema))]
    int96 = {leaf.name for leaf in leaves if leaf.physical_type == "INT96"}
    names = [name.lower() for name in schema.names]
    for one in wanted:
        if one.name not in schema.names or names.count(one.name.lower()) != 1:
            return f"it does not have the column {one.name!r} once"
        found = schema.field(one.name).type
        # What Spark has written so is in UTC. Of others, nobody knows.
        if one.name in int96:
            alike = version is not None and one.type == INSTANT
        else:
            alike = found == one.type
        if not alike:
            return f"column {one.name!r} is {found} there, and {one.type} here"
    return None


def read_rows(name: str, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of a stream, a row group at a time.

    Raises
    ------
    DataError
        If it cannot be read, or not as Spark would.
    """
    path = local_path(name)
    try:
        with opened(path) as file:
            reason = "it is not a local one" if not is_local(name) else unfit(file, wanted)
            if reason:
                raise DataError(_refused(path, reason))
            noted = b"org.apache.spark.version" in (file.metadata.metadata or {})
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, columns=wanted.names, use_threads=False)
                for rows in table.combine_chunks().to_batches():
                    if not noted and any(map(_is_old, rows.columns)):
                        raise DataError(_refused(path, "it has times before 1900"))
                    yield conformed(rows, wanted)
    except (OSError, pa.ArrowException) as error:
        raise DataError(_refused(path, str(error))) from error


def is_local(name: str) -> bool:
    """Say whether a name is that of a local file, in a folder that tells no column's value."""
    return name.startswith("file:/") and "=" not in local_path(name).rpartition("/")[0]


def _refused(path: str, reason: str) -> str:
    return (
        f"worker cannot read {path}: {reason}. With spark.eddyline.readFiles=false Spark reads it; "
        "the query can go on from its checkpoint"
    )


def _is_old(column: pa.Array) -> bool:
    kinds = pa.types
    if kinds.is_date32(column.type):
        first = pc.min(column.cast(pa.int32())).as_py()
        return first is not None and first < OLD
    if kinds.is_timestamp(column.type):
        first = pc.min(column.cast(pa.int64())).as_py()
        return first is not None and first < OLD * DAY
    return False
