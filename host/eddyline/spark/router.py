"""Rows to envelopes: which unit stores them, and which are shown them.

An envelope holds rows, or the name of a file whose rows are meant. Of streams, unit 0 is also told
the ``latest`` time of all rows, whichever units these are for.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, MapType, StructType, VariantType

from eddyline.biclique.envelope import pack
from eddyline.biclique.routing import Router
from eddyline.biclique.side import sent_columns
from eddyline.query.types import numbers
from eddyline.rowstore import concatenated
from eddyline.spark.files import RowGroups, row_groups
from eddyline.spark.filestreams import FILE, file_names, is_plain_stream, reader
from eddyline.spark.request import Request
from eddyline.spark.rowhash import hashable, row_hashes
from eddyline.spark.schemas import column, conformed, mapped
from eddyline.times import latest_time

__all__ = ["ENVELOPE", "SPREAD", "columns_sent", "packer", "readable", "routed", "routed_stream"]

ENVELOPE = f"unit int, side string, stores boolean, payload binary, {FILE} string, latest long"
ENVELOPE_ARROW = pa.schema(
    [
        ("unit", pa.int32()),
        ("side", pa.string()),
        ("stores", pa.bool_()),
        ("payload", pa.binary()),
        (FILE, pa.string()),
        ("latest", pa.int64()),
    ]
)
SPREAD = "eddyline_spread"
# What is routed together, at the most.
TOGETHER = 1 << 17
TOGETHER_BYTES = 1 << 27


def columns_sent(request: Request, side: str) -> pa.Schema:
    """Return what an envelope of this side holds."""
    fields = list(_needed(request, side))
    # Streams wait by it; of tables it is needed where times are equal, and may be made there.
    if request.sequenced and (request.timed or not hashable(_needed(request, side))):
        fields.append(pa.field(SPREAD, pa.int64(), nullable=False))
    return pa.schema(fields)


def readable(frame: DataFrame, request: Request, side: str) -> RowGroups | None:
    """Return where workers find the rows of a side by themselves, or None if they cannot."""
    needed = _needed(request, side)
    if _hashed(request, side) and not hashable(needed):
        return None
    return row_groups(frame, needed)


def routed(
    frame: DataFrame, request: Request, side: str, groups: RowGroups | None = None
) -> DataFrame:
    """Return the rows of a side as envelopes, a few per unit and partition."""
    needed = _needed(request, side)
    if groups is not None:
        read = groups.reader(needed.names)
        return groups.numbers(frame.sparkSession).mapInArrow(packer(request, side, read), ENVELOPE)
    sent = frame.select(*(column(name) for name in needed.names))
    if _hashed(request, side):
        hashed = [
            column(name) for name in needed.names if not _unhashable(frame.schema[name].dataType)
        ]
        sent = sent.withColumn(SPREAD, F.xxhash64(*hashed) if hashed else F.lit(0))
    return mapped(sent, packer(request, side), ENVELOPE)


def routed_stream(frame: DataFrame, request: Request, side: str) -> DataFrame:
    """Return the rows of a stream as envelopes, or the names of its files if that is enough."""
    needed = _needed(request, side)
    hashed = _hashed(request, side)
    # What waits for its turn has its hash beside it, so it is made where all rows pass.
    if request.sequenced or (hashed and not hashable(needed)) or not is_plain_stream(frame, needed):
        return routed(frame, request, side)
    names = file_names(frame)
    if request.routing.units > 1 or request.routing.draining:
        return names.mapInArrow(packer(request, side, reader(needed)), ENVELOPE)
    # The only unit reads what it stores, and nothing is packed.
    return names.select(
        F.lit(0).alias("unit"), F.lit(side).alias("side"), F.lit(True).alias("stores"),
        F.lit(None).cast("binary").alias("payload"), FILE,
        F.lit(None).cast("long").alias("latest"),
    )  # fmt: skip


def _hashed(request: Request, side: str) -> bool:
    """Say whether the hash of a row is needed: to know its unit, or its place in time."""
    return request.routing.spreads or SPREAD in columns_sent(request, side).names


def _needed(request: Request, side: str) -> pa.Schema:
    schema = request.query.schema(side)
    return pa.schema([schema.field(name) for name in sent_columns(request.query, side)])


Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def packer(request: Request, side: str, read: Stage | None = None) -> Stage:
    # A single unit that stores all rows knows of all.
    telling = request.streams and request.routing.units > 1

    def pack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest = None
        router = Router(request.query, side, request.routing, strays=bool(request.late))
        schema = columns_sent(request, side)
        for batch in _together(read(batches) if read else batches):
            spread = None
            if request.routing.spreads:
                made = SPREAD in batch.schema.names
                spread = numbers(batch[SPREAD]) if made else row_hashes(batch)
            rows = conformed(batch, schema)
            yield from _envelopes(router, rows, spread)
            if telling and (last := latest_time(request.query, side, rows)) is not None:
                latest = last if latest is None else max(last, latest)
        if latest is not None:
            yield _envelope(0, side, None, None, None, latest)

    return pack_rows


def _envelopes(
    router: Router, rows: pa.RecordBatch, spread: np.ndarray | None
) -> Iterator[pa.RecordBatch]:
    for home, mine, units in router.ways(rows, spread):
        payload = pack(rows if len(mine) == rows.num_rows else rows.take(pa.array(mine)))
        for unit in units:  # one by one, since copies of a payload may be too much for a batch
            stores = router.routing.stores(home, unit)
            yield _envelope(unit, router.side, stores, payload, None, None)


def _envelope(*row: Any) -> pa.RecordBatch:
    arrays = [pa.array([value], one.type) for value, one in zip(row, ENVELOPE_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE_ARROW)


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small batches together."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and size + batch.nbytes > TOGETHER_BYTES:
            yield concatenated(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= TOGETHER:
            yield concatenated(waiting)
            waiting, rows, size = [], 0, 0
    if any(one.num_rows for one in waiting):
        yield concatenated(waiting)


def _unhashable(type_: DataType) -> bool:
    """Say whether Spark refuses to hash a type, or a part of it."""
    if isinstance(type_, MapType | VariantType):
        return True
    if isinstance(type_, StructType):
        return any(_unhashable(one.dataType) for one in type_)
    element = getattr(type_, "elementType", None)
    return isinstance(element, DataType) and _unhashable(element)
