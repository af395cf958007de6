"""Spark's schemas and Arrow's."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

__all__ = [
    "PASSED",
    "WATERMARK",
    "arrow_schema",
    "column",
    "conformed",
    "mapped",
    "spark_schema",
    "timing_of",
    "watermark_of",
]

WATERMARK = "spark.watermarkDelayMs"
PASSED = "eddyline.watermarkHasPassed"  # notes that rows come when the watermark is past them


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the columns of a frame. Spark's timestamps are instants; results name them in UTC."""
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    # What Spark notes beside a column, such as its watermark, is nothing that is joined.
    return pa.schema([pa.field(one.name, one.type, nullable=one.nullable) for one in schema])


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema)


def watermark_of(frame: DataFrame, column: str) -> int | None:
    """Return the delay of a column's watermark in milliseconds, or None if it has none."""
    return frame.schema[column].metadata.get(WATERMARK)


def timing_of(frame: DataFrame, column: str) -> dict[str, Any]:
    """Return what Spark and we have noted of the watermark of a column."""
    noted = frame.schema[column].metadata
    return {key: noted[key] for key in (WATERMARK, PASSED) if key in noted}


def column(name: str) -> "F.Column":
    """Return a column by its name, whatever characters that has."""
    return F.col("`" + name.replace("`", "``") + "`")


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
