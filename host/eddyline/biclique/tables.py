"""One unit of two tables: all rows are here, in order, so none has to be kept or let go of."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from eddyline.biclique.meeting import Pairs, open_meeting
from eddyline.biclique.order import merged
from eddyline.device import Tuples
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.query import Query
from eddyline.results import in_batches, result_batch, result_schema

__all__ = ["OrderedRows", "joined_tables"]

TOGETHER = 1 << 16  # rows of the longer side that are joined at a time


@dataclass(frozen=True)
class OrderedRows:
    """Rows of one side in order of their times; the unit stores those that ``stores`` says."""

    rows: pa.RecordBatch
    times: np.ndarray
    stores: np.ndarray | None = None


def joined_tables(
    query: Query, device: str, r: OrderedRows, s: OrderedRows, *, units: int = 1
) -> Iterator[pa.RecordBatch]:
    """Join two tables by time, R before S, on one of ``units`` units that rows are shown to."""
    dictionary = Dictionary()
    encoders = [
        SideEncoder(query.lowering.side(side), dictionary, side=side) for side in ("r", "s")
    ]
    meeting = open_meeting(query.plan, device, units=units)
    schema = result_schema(query)
    width = sum(one.rows.nbytes // max(one.rows.num_rows, 1) for one in (r, s))
    made = partial(_rows, query, schema, (r, s))
    begins = (0, 0)
    try:
        for ends in _ends(r.times, s.times):
            parts = [slice(begin, end) for begin, end in zip(begins, ends, strict=True)]
            begins = ends
            records = [
                encoder.encode(
                    table.rows.slice(part.start, part.stop - part.start),
                    first=part.start,
                    times=table.times[part],
                )
                for encoder, table, part in zip(encoders, (r, s), parts, strict=True)
            ]
            sides = merged(r.times[parts[0]], s.times[parts[1]])
            stores = None
            if r.stores is not None and s.stores is not None:
                stores = (r.stores[parts[0]].view(np.uint8), s.stores[parts[1]].view(np.uint8))
            if not len(sides):
                continue
            more = ends != (len(r.times), len(s.times))
            for pairs in meeting.join(Tuples(sides, *records), stores, more=more):
                yield from in_batches(pairs, made, width=width)
    finally:
        meeting.close()


def _ends(r: np.ndarray, s: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield where both sides are cut, at the same times, and then their ends."""
    for cut in max(r, s, key=len)[TOGETHER::TOGETHER].tolist():
        yield int(np.searchsorted(r, cut)), int(np.searchsorted(s, cut))
    yield len(r), len(s)


def _rows(
    query: Query, schema: pa.Schema, tables: tuple[OrderedRows, ...], ids: Pairs
) -> pa.RecordBatch:
    taken, times = {}, []
    timed = any(one.side == "time" for one in query.outputs)
    for side, table, places in zip("rs", tables, ids, strict=True):
        wanted = dict.fromkeys(one.column for one in query.outputs if one.side == side)
        index = pa.Array.from_buffers(
            pa.uint32(), len(places), [None, pa.py_buffer(np.ascontiguousarray(places, np.uint32))]
        )
        taken[side] = pa.Table.from_batches([table.rows.select(list(wanted)).take(index)])
        times.append(table.times[places] if timed else table.times[:0])
    return result_batch(query, schema, taken, times)
