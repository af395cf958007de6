"""A stream and a table: every row of the stream meets all of the table."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from eddyline.biclique.envelope import pack, unpack_all
from eddyline.biclique.side import sent_columns
from eddyline.biclique.unit import Sent
from eddyline.query.parse import Names
from eddyline.query.select import RESULT_TIME, parse_select
from eddyline.results import result_schema
from eddyline.rowstore import empty
from eddyline.spark import settings
from eddyline.spark.errors import StreamJoinError, in_sparks_style
from eddyline.spark.request import Request
from eddyline.spark.schemas import (
    arrow_schema,
    column,
    conformed,
    mapped,
    output_schema,
    timing_of,
)

__all__ = ["joined_static", "require_timeless"]

MOST = 1 << 28


def require_timeless(
    r: DataFrame, s: DataFrame, *, window: Any, time: Any, lateness: Any, select: str | None
) -> None:
    """Refuse what only rows that come and go can have: a table is all there before the stream."""
    windows = window if isinstance(window, tuple | list) else (window,)
    bounded = any(str(one) not in ("None", "unbounded") for one in windows)
    given = {"window": bounded, "time": time is not None, "lateness": lateness is not None}
    asked = [name for name, is_given in given.items() if is_given]
    if asked:
        raise StreamJoinError(
            "STATIC_TIME",
            "a row of a stream meets all of a table, whenever it comes: leave out "
            f"{' and '.join(asked)} and compare times in the predicate, or read the table as a "
            "stream",
        )
    with in_sparks_style("QUERY"):
        names = Names(arrow_schema(r), arrow_schema(s), any_case=not settings.cased(r.sparkSession))
        outputs = parse_select(select, names, timed=True)
    if any(one.side == "time" for one in outputs):
        raise StreamJoinError(
            "STATIC_TIME",
            f"a stream and a table have no {RESULT_TIME}: select the time column of the stream",
        )


def joined_static(r: DataFrame, s: DataFrame, request: Request) -> DataFrame:
    """Join a stream with a table, which is read once, now, and sent to every worker.

    Raises
    ------
    StreamJoinError
        If the table is larger than ``spark.eddyline.staticBytes``.
    """
    side, stream, table = ("r", r, s) if r.isStreaming else ("s", s, r)
    other = "s" if side == "r" else "r"
    held = table.select(*(column(name) for name in sent_columns(request.query, other))).toArrow()
    most = settings.number(r.sparkSession, "staticBytes", MOST)
    if held.nbytes > most:
        raise StreamJoinError(
            "STATIC_SIZE",
            f"the table has {held.nbytes} bytes, more than the {most} that are sent to workers: "
            "read it as a stream, select fewer columns, or raise spark.eddyline.staticBytes",
        )
    rows = held.combine_chunks().to_batches()
    meets = _Meets(request, side, pack(rows[0] if rows else empty(held.schema)))
    needed = [column(name) for name in sent_columns(request.query, side)]
    schema = output_schema(request.query, result_schema(request.query), r, s)
    for output, one in zip(request.query.outputs, schema.fields, strict=True):
        if output.side == side:  # rows pass at once, so a watermark is good behind the join, too
            one.metadata |= timing_of(stream, output.column)
    return mapped(stream.select(*needed), meets.function(), schema)


class _Meets:
    """Joins batches of the stream; made in the driver, used in workers."""

    def __init__(self, request: Request, side: str, table: bytes):
        self._request = request
        self._side = side
        self._table = table

    def function(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        return lambda batches: self._join(batches)

    @cached_property
    def _rows(self) -> pa.RecordBatch:
        query = self._request.query
        other = "s" if self._side == "r" else "r"
        schema = pa.schema([query.schema(other).field(n) for n in sent_columns(query, other)])
        return conformed(unpack_all([self._table], schema), schema)

    def _join(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        query = self._request.query
        mine = pa.schema(
            [query.schema(self._side).field(n) for n in sent_columns(query, self._side)]
        )
        # Rows of the stream are shown and not stored, as if another unit had them.
        unit = self._request.unit()
        try:
            r, s = (empty(mine), self._rows) if self._side == "r" else (self._rows, empty(mine))
            unit.load(r, s)
            none = Sent(self._rows.slice(0, 0), np.empty(0, bool))
            for batch in batches:
                shown = Sent(conformed(batch, mine), np.zeros(batch.num_rows, bool))
                r_sent, s_sent = (shown, none) if self._side == "r" else (none, shown)
                yield from unit.join(r_sent, s_sent)
        finally:
            unit.close()
