"""Two tables: the same units, without state."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from eddyline.biclique.envelope import Payloads, opened
from eddyline.biclique.order import sorted_places
from eddyline.biclique.tables import OrderedRows, joined_tables
from eddyline.results import result_schema
from eddyline.rowstore import integers
from eddyline.spark.leases import resolved
from eddyline.spark.request import Request
from eddyline.spark.router import SPREAD, columns_sent
from eddyline.spark.rowhash import row_hashes
from eddyline.spark.schemas import conformed, spark_schema
from eddyline.times import times_of

__all__ = ["joined_batch"]


def joined_batch(sent: DataFrame, request: Request) -> DataFrame:
    """Join what was sent to the units, each of which sees its rows in order of time."""
    schema = result_schema(request.query)

    def join_unit(envelopes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        payloads: dict[tuple[str, bool], list[bytes]] = {}
        for batch in envelopes:
            for side, stores, payload in zip(
                batch["side"].to_pylist(), batch["stores"].to_pylist(), batch["payload"],
                strict=True,
            ):  # fmt: skip
                payloads.setdefault((side, stores), []).append(payload.as_buffer())
        sides = [_ordered(request, side, payloads) for side in "rs"]
        payloads.clear()
        device = resolved(request.device)
        for rows in joined_tables(request.query, device, *sides, units=request.routing.shares):
            yield conformed(rows, schema)

    return sent.groupBy("unit").applyInArrow(join_unit, spark_schema(schema))


def _ordered(request: Request, side: str, payloads: Payloads) -> OrderedRows:
    """Return the rows of a side in order of time; without one, R comes before S."""
    rows, stores = opened(payloads, side, columns_sent(request, side))
    times = np.zeros(rows.num_rows, np.int64)
    if request.query.time:
        times = times_of(request.query, side, rows, lambda row: f"table {side}, row {row}")
    order = sorted_places(times)
    if request.sequenced:
        when = times if order is None else times[order]
        # Windows of rows depend on which of several rows of one time comes first.
        if (when[1:] == when[:-1]).any():
            order = np.lexsort((_spread(rows), times))
    if order is not None:
        rows, stores, times = rows.take(integers(order)), stores[order], times[order]
    return OrderedRows(rows, times, stores if request.routing.shares > 1 else None)


def _spread(rows: pa.RecordBatch) -> np.ndarray:
    if SPREAD in rows.schema.names:
        return rows[SPREAD].to_numpy(zero_copy_only=False)
    return row_hashes(rows)
