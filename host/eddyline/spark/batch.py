"""Two tables: the same units, without state."""

import tempfile
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from eddyline.biclique.envelope import Payloads, opened
from eddyline.biclique.order import sorted_places
from eddyline.biclique.tables import OrderedRows, joined_tables
from eddyline.errors import DeviceError
from eddyline.results import result_schema
from eddyline.rowstore import concatenated, empty, integers
from eddyline.spark import cache
from eddyline.spark.files import RowGroups
from eddyline.spark.leases import held
from eddyline.spark.request import Request
from eddyline.spark.router import SPREAD, columns_sent, readable, routed
from eddyline.spark.rowhash import row_hashes
from eddyline.spark.schemas import conformed, output_schema
from eddyline.times import times_of

__all__ = ["joined_batch"]


def joined_batch(r: DataFrame, s: DataFrame, request: Request) -> DataFrame:
    """Join two tables on the units, each of which sees its rows in order of time."""
    frames = {"r": r, "s": s}
    schema = result_schema(request.query)
    target = output_schema(request.query, schema, r, s)
    files = {side: readable(frame, request, side) for side, frame in frames.items()}

    def joined_on(name: str, sides: Iterable[OrderedRows]) -> Iterator[pa.RecordBatch]:
        with held(name) as device:
            for rows in joined_tables(request.query, device, *sides, units=request.routing.shares):
                yield conformed(rows, schema)

    def joined(sides: Iterable[OrderedRows]) -> Iterator[pa.RecordBatch]:
        if not request.failover:
            yield from joined_on(request.device, sides)
            return
        sides = list(sides)
        try:
            yield from _all_there(schema, joined_on(request.device, sides))
        except DeviceError:
            cache.counts[request.token]["failover"] += 1
            if request.metrics:
                cache.report(request.metrics, request.token)
            yield from joined_on(request.failover, sides)

    def join_files(started: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in started:
            yield from joined(
                _read(request, side, groups) for side, groups in files.items() if groups
            )

    def join_sent(envelopes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        payloads: dict[tuple[str, bool], list[bytes]] = {}
        for batch in envelopes:
            for side, stores, payload in zip(
                batch["side"].to_pylist(), batch["stores"].to_pylist(), batch["payload"],
                strict=True,
            ):  # fmt: skip
                payloads.setdefault((side, stores), []).append(payload.as_buffer())
        sides = [_opened(request, side, payloads) for side in "rs"]
        payloads.clear()  # what was put together from them is a copy
        yield from joined(sides)

    if request.routing.units == 1 and all(files.values()):
        # What a single unit can read need not be sent to it.
        unit = r.sparkSession.range(1, numPartitions=1)
        return unit.mapInArrow(join_files, target)
    sent_r, sent_s = (routed(frame, request, side, files[side]) for side, frame in frames.items())
    return sent_r.union(sent_s).groupBy("unit").applyInArrow(join_sent, target)


def _all_there(schema: pa.Schema, results: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield results when all of them are there: what is handed over cannot be taken back."""
    with tempfile.TemporaryFile() as file:
        with pa.ipc.new_stream(file, schema) as writer:
            for rows in results:
                writer.write_batch(rows)
        file.seek(0)
        with pa.ipc.open_stream(file) as reader:
            yield from reader


def _read(request: Request, side: str, groups: RowGroups) -> OrderedRows:
    schema = columns_sent(request, side)
    read = groups.rows(schema.names, range(len(groups.groups)))
    rows = concatenated([conformed(batch, schema) for batch in read] or [empty(schema)])
    return _ordered(request, side, rows, np.ones(rows.num_rows, bool))


def _opened(request: Request, side: str, payloads: Payloads) -> OrderedRows:
    return _ordered(request, side, *opened(payloads, side, columns_sent(request, side)))


def _ordered(request: Request, side: str, rows: pa.RecordBatch, stores: np.ndarray) -> OrderedRows:
    """Return the rows of a side in order of time; without one, R comes before S."""
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
