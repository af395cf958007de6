"""Late rows among the results: marked, with nothing where the other side's columns are."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eddyline.query import Query
from eddyline.results import result_batch, result_schema
from eddyline.spark.errors import StreamJoinError
from eddyline.spark.request import Request
from eddyline.times import has_time, times_of

__all__ = ["late_results", "marked", "require_lateness", "with_mark", "without_late"]


def require_lateness(request: Request, *, tables: bool) -> None:
    """Refuse a mark for rows that cannot be late, or a name that is none or taken."""
    if not isinstance(request.late, str) or not request.late:
        raise StreamJoinError("LATE", f'late={request.late!r} names no column: write late="late"')
    if request.late.lower() in {output.name.lower() for output in request.query.outputs}:
        raise StreamJoinError(
            "LATE", f"a result column is called {request.late!r} already: choose another name"
        )
    if not tables and not request.timed:
        raise StreamJoinError(
            "LATE",
            f"late={request.late!r}: without watermarks on two streams no row is late; add "
            '.withWatermark("…", "10 seconds") to both, or leave late out',
        )


def with_mark(query: Query, late: str) -> pa.Schema:
    """Return the columns of results among which there are late rows, with the mark at the end."""
    schema = result_schema(query)
    fields = [one.with_nullable(True) for one in schema]
    return pa.schema([*fields, pa.field(late, pa.string())])


def marked(rows: pa.RecordBatch, schema: pa.Schema, side: str | None) -> pa.RecordBatch:
    """Add the mark to results: the side of a late row, nothing for a pair."""
    mark = pa.repeat(pa.scalar(side, pa.string()), rows.num_rows)
    columns = [column.cast(one.type) for column, one in zip(rows.columns, schema, strict=False)]
    return pa.RecordBatch.from_arrays([*columns, mark], schema=schema)


def late_results(query: Query, side: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return late rows of a side as results. The time of such a result is the row's own."""
    other = query.schema("s" if side == "r" else "r")
    nothing = pa.table([pa.nulls(rows.num_rows, one.type) for one in other], other.names)
    tables = {side: pa.Table.from_batches([rows]), "s" if side == "r" else "r": nothing}
    timed = has_time(query, side, rows)
    times = np.zeros(rows.num_rows, np.int64)
    times[timed] = times_of(
        query, side, rows.filter(pa.array(timed)), lambda row: f"late row {row} of {side}"
    )
    schema = pa.schema([one.with_nullable(True) for one in result_schema(query)])
    results = result_batch(query, schema, tables, [times, times])
    columns = [
        pc.if_else(pa.array(timed), column, None) if output.side == "time" else column
        for output, column in zip(query.outputs, results.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def without_late(frame: DataFrame, late: str) -> DataFrame:
    """Add the mark where nothing can be late: tables."""
    return frame.withColumn(late, F.lit(None).cast("string"))
