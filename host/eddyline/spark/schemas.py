"""Spark's schemas and Arrow's."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from eddyline.query import Query
from eddyline.spark.errors import StreamJoinError

__all__ = [
    "PASSED",
    "WATERMARK",
    "arrow_schema",
    "column",
    "conformed",
    "mapped",
    "output_schema",
    "quoted",
    "require_bytewise",
    "timing_of",
    "watermark_of",
]

BYTEWISE = "UTF8_BINARY"  # the collation of strings that are compared by their bytes
TYPE = b"eddyline.sparkType"
WATERMARK = "spark.watermarkDelayMs"
PASSED = "eddyline.watermarkHasPassed"  # notes that rows come when the watermark is past them


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the columns of a frame. Spark's timestamps are instants; results name them in UTC.

    Beside a column is noted its type, if Arrow's does not tell all of it, as of collations.

    Raises
    ------
    StreamJoinError
        If Arrow has no type for a column.
    """
    fields = []
    for one in frame.schema:
        try:
            [found] = to_arrow_schema(StructType([one]), timezone="UTC")
        except PySparkTypeError:
            raise StreamJoinError(
                "TYPE",
                f"column {one.name!r} is {one.dataType.simpleString()}, which Arrow cannot carry "
                f"to Python workers: cast it, or leave it out with .drop({one.name!r})",
            ) from None
        # What Spark notes beside a column, such as its watermark, is nothing that is joined.
        field = pa.field(one.name, found.type, nullable=one.nullable)
        if _spark_schema(pa.schema([field]))[0].dataType != one.dataType:
            whole = StructType([StructField(one.name, one.dataType)]).json()
            field = field.with_metadata({TYPE: whole})
        fields.append(field)
    return pa.schema(fields)


def _spark_schema(schema: pa.Schema) -> StructType:
    made = from_arrow_schema(schema)
    for one, field in zip(made, schema, strict=True):
        if field.metadata and TYPE in field.metadata:
            one.dataType = StructType.fromJson(json.loads(field.metadata[TYPE]))[0].dataType
    return made


def output_schema(query: Query, schema: pa.Schema, r: DataFrame, s: DataFrame) -> StructType:
    """Return Spark's schema of results, with what users have noted beside columns of both sides.

    What Spark itself notes, of watermarks and of where it has a column from, is true of that only.
    """
    made = _spark_schema(schema)
    noted = {"r": r.schema, "s": s.schema}
    for output, one in zip(query.outputs, made.fields, strict=False):
        if output.side != "time":
            notes = noted[output.side][output.column].metadata
            one.metadata = {
                key: value
                for key, value in notes.items()
                if key not in (WATERMARK, PASSED) and not key.startswith("__")
            }
    return made


def watermark_of(frame: DataFrame, column: str) -> int | None:
    """Return the delay of a column's watermark in milliseconds, or None if it has none."""
    return frame.schema[column].metadata.get(WATERMARK)


def timing_of(frame: DataFrame, column: str) -> dict[str, Any]:
    """Return what Spark and we have noted of the watermark of a column."""
    noted = frame.schema[column].metadata
    return {key: noted[key] for key in (WATERMARK, PASSED) if key in noted}


def require_bytewise(frame: DataFrame, columns: Iterable[str], prefix: str = "") -> None:
    """Refuse columns of strings that Spark does not compare by their bytes, as we do."""
    for name in columns:
        type_ = frame.schema[name].dataType
        if isinstance(type_, StringType) and type_.collation != BYTEWISE:
            raise StreamJoinError(
                "COLLATION",
                f"column {prefix}{name} has the collation {type_.collation}, and strings are "
                f"compared by bytes here: select it as collate({name}, '{BYTEWISE}') before, or as "
                f"collate(lower({name}), '{BYTEWISE}') to leave case out",
            )


def column(name: str) -> "F.Column":
    """Return a column by its name, whatever characters that has."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """Return the name of a column as it is written where dots mean something."""
    return "`" + name.replace("`", "``") + "`"


def mapped(
    frame: DataFrame,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Return ``frame.mapInArrow(…)``, which itself cannot take names with dots and backticks."""
    names = frame.columns
    if not any({".", "`"} & set(name) for name in names):
        return frame.mapInArrow(function, schema)

    def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*(f"c{place}" for place in range(len(names)))).mapInArrow(named, schema)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch's columns with exactly these types."""
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    columns = [batch[one.name].cast(one.type) for one in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
