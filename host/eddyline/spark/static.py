"""A stream and a table: every row of the stream meets all of the table."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from eddyline.biclique.envelope import pack, unpack_all
from eddyline.biclique.unit import Sent, sent_columns
from eddyline.results import result_schema
from eddyline.rowstore import empty
from eddyline.spark import settings
from eddyline.spark.errors import StreamJoinError
from eddyline.spark.request import Request
from eddyline.spark.schemas import column, conformed, spark_schema

__all__ = ["joined_static"]

MOST = 1 << 28


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
    schema = spark_schema(result_schema(request.query))
    return stream.select(*needed).mapInArrow(meets.function(), schema)


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
