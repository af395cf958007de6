"""Rows on their way between processes: Arrow batches as bytes, one behind the other."""

from collections.abc import Iterable

import pyarrow as pa

__all__ = ["pack", "unpack", "unpack_all"]


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
        return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.concat_batches(batches)
