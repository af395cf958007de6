"""Rows on their way between processes: Arrow batches as bytes, one behind the other."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from eddyline.rowstore import empty

__all__ = ["Payloads", "opened", "pack", "unpack", "unpack_all"]

# By side, and by whether the unit stores what is in them.
Payloads = Mapping[tuple[str, bool], Iterable[bytes]]


def pack(rows: pa.RecordBatch) -> bytes:
    """Return a batch as bytes; the bytes of several may be put behind one another."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def unpack(payload: bytes) -> list[pa.RecordBatch]:
    """Return the batches in some bytes. They are views of those."""
    source = pa.BufferReader(payload)
    batches: list[pa.RecordBatch] = []
    while source.tell() < source.size():
        with pa.ipc.open_stream(source) as reader:
            batches += reader
    return batches


def unpack_all(payloads: Iterable[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """Return all rows of several payloads as one batch."""
    batches = [batch for payload in payloads for batch in unpack(payload)]
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return empty(schema)
    return pa.concat_batches(batches)


def opened(payloads: Payloads, side: str, schema: pa.Schema) -> tuple[pa.RecordBatch, np.ndarray]:
    """Return the rows of a side that were sent to a unit, and which of them it stores."""
    own, shown = (unpack_all(payloads.get((side, stores), ()), schema) for stores in (True, False))
    stores = np.repeat([True, False], [own.num_rows, shown.num_rows])
    return (pa.concat_batches([own, shown]) if shown.num_rows else own), stores
