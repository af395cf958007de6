"""The rows of the result: which columns they need, and how they are put together."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.errors import DataError, QueryError
from eddyline.query import Query
from eddyline.query.predicate import columns_of
from eddyline.rowstore import integers

__all__ = [
    "RESULT_ROWS", "Pairs", "in_batches", "needed_columns", "require_carried", "result_batch",
    "result_schema",
]  # fmt: skip

# What is put into one batch of results, at the most.
RESULT_ROWS = 1 << 16
RESULT_BYTES = 1 << 26

Pairs = tuple[np.ndarray, np.ndarray]


def needed_columns(query: Query, side: str) -> list[str]:
    """Return the columns that words, flags or results are made of; others are not kept.

    At least one, though it may not be needed: neither Arrow nor Spark count rows without columns.
    """
    needed = {output.column for output in query.outputs if output.side == side}
    needed |= columns_of(query.predicate, side)
    names = query.schema(side).names
    return [name for name in names if name in needed] or names[:1]


def require_carried(query: Query) -> None:
    """Refuse result columns of types that Arrow cannot pick rows out of."""
    for output in query.outputs:
        if output.side == "time":
            continue
        type_ = query.schema(output.side).field(output.column).type
        try:
            pa.nulls(0, type_).take(integers(np.empty(0)))
        except pa.ArrowNotImplementedError:
            raise QueryError(
                f"column {output.side}.{output.column} is {type_}, which cannot be carried "
                "into the result: leave it out with select"
            ) from None


def result_schema(query: Query) -> pa.Schema:
    fields = []
    for output in query.outputs:
        if output.side == "time":
            assert query.time
            finest = min("rs", key=lambda side: query.time_type(side).unit)
            name = query.time[finest == "s"]
            type_ = query.schema(finest).field(name).type if query.tick else pa.int64()
            fields.append(pa.field(output.name, type_, nullable=False))
        else:
            source = query.schema(output.side).field(output.column)
            fields.append(source.with_name(output.name))
    return pa.schema(fields)


def result_batch(
    query: Query, schema: pa.Schema, tables: Mapping[str, pa.Table], times: Sequence[np.ndarray]
) -> pa.RecordBatch:
    """Put rows of R and the rows of S that they met side by side; a result's time is the later."""
    columns = []
    for output, target in zip(query.outputs, schema, strict=True):
        if output.side == "time":
            columns.append(_result_time(query, np.maximum(*times), target.type))
        else:
            columns.append(pa.concat_arrays(tables[output.side][output.column].chunks))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def in_batches(
    pairs: Pairs, make: Callable[[Pairs], pa.RecordBatch], *, width: int
) -> Iterator[pa.RecordBatch]:
    """Let ``make`` make batches of pairs, of rows that have about ``width`` bytes.

    Raises
    ------
    DataError
        If one pair is too much for a batch.
    """
    size = max(1, min(RESULT_ROWS, RESULT_BYTES // max(width, 1)))
    for begin in range(0, len(pairs[0]), size):
        yield from _made((pairs[0][begin : begin + size], pairs[1][begin : begin + size]), make)


def _made(pairs: Pairs, make: Callable[[Pairs], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        batch = make(pairs)
    except pa.ArrowInvalid as error:
        # A few very wide rows among narrow ones: halves will fit.
        half = len(pairs[0]) // 2
        if not half:
            raise DataError(f"a result row does not fit one batch: {error}") from None
        for part in (slice(half), slice(half, None)):
            yield from _made((pairs[0][part], pairs[1][part]), make)
        return
    yield batch


def _result_time(query: Query, ticks: np.ndarray, type_: pa.DataType) -> pa.Array:
    raw = integers(ticks)
    if not query.tick:
        return raw.cast(type_)
    return raw.cast(pa.int32()).cast(type_) if type_.bit_width == 32 else raw.cast(type_)
