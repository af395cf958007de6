"""Write result batches to a file or stdout."""

import errno
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from eddyline.errors import MachineError, QueryError
from eddyline.io.read import FORMATS

__all__ = ["ReaderGone", "Sink", "discard_stdout", "open_sink", "output_format"]

# Parquet row groups and Arrow batches are at least this large, unless the stream is shorter.
ROW_GROUP = 1 << 16


class ReaderGone(Exception):
    """Whoever read our output has seen enough."""


class Sink(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def output_format(name: str | None) -> str:
    """Return the format of an output by its extension; stdout is CSV."""
    if name is None or name == "-":
        return "csv"
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise QueryError(
            f"cannot tell the format of {name} from its name (known: {', '.join(FORMATS)})"
        )
    return FORMATS[suffix]


def require_writable(schema: pa.Schema, format_: str) -> None:
    """Refuse columns that a format has no way to write, before anything is overwritten."""
    for field in schema:
        if not _holds(format_, field):
            others = [name for name in ("parquet", "arrow") if name != format_]
            raise QueryError(
                f"column {field.name!r} is {field.type}, which {format_} cannot hold: write "
                f"{' or '.join(others)}, or leave it out with --select"
            )


def _holds(format_: str, field: pa.Field) -> bool:
    type_ = field.type
    if format_ in ("csv", "ndjson") and (
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    ):
        return False
    row = pa.RecordBatch.from_arrays([pa.nulls(1, type_)], names=[field.name])
    try:
        match format_:
            case "csv":
                arrow_csv.write_csv(row, io.BytesIO())
            case "ndjson":
                _json_lines(row)
            case "parquet":
                pq.write_table(pa.Table.from_batches([row]), io.BytesIO())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # Arrow has no way to write the type
        return False
    return True


@contextmanager
def open_sink(name: str | None, schema: pa.Schema) -> Iterator[Sink]:
    """Open an output. What was written is valid however the block is left.

    Raises
    ------
    MachineError
        If the disk is full or the place cannot be written.
    ReaderGone
        If stdout's reader has closed it.
    """
    format_ = output_format(name)
    require_writable(schema, format_)
    place = "stdout" if name in (None, "-") else str(name)
    with _machine_errors(place):
        # Closed below, after the sink that writes into it.
        file: BinaryIO = sys.stdout.buffer if place == "stdout" else Path(place).open("wb")  # noqa: SIM115
        sink = _sink(format_, file, schema, place)
    try:
        yield _Guarded(sink, place)
    finally:
        with _machine_errors(place):
            try:
                sink.close()
                file.flush()
            finally:
                if place != "stdout":
                    file.close()


def discard_stdout() -> None:
    """Send what is left for stdout nowhere: Python would fail once more flushing it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _machine_errors(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if place == "stdout":
            discard_stdout()
        if isinstance(error, BrokenPipeError):
            raise ReaderGone from None
        if error.errno == errno.ENOSPC:
            raise MachineError(f"no space left for {place}: free some or write elsewhere") from None
        raise MachineError(f"cannot write {place}: {error.strerror or error}") from None


class _Guarded:
    def __init__(self, sink: Sink, place: str):
        self._sink = sink
        self._place = place

    def write(self, batch: pa.RecordBatch) -> None:
        with _machine_errors(self._place):
            self._sink.write(batch)

    def close(self) -> None: ...


def _sink(format_: str, file: BinaryIO, schema: pa.Schema, place: str) -> Sink:
    match format_:
        case "parquet":
            return _Collected(pq.ParquetWriter(file, schema, compression="zstd"), schema)
        case "arrow" if place.endswith(".arrows"):
            return _Live(pa.ipc.new_stream(file, schema), file)
        case "arrow":
            return _Collected(pa.ipc.new_file(file, schema), schema)
        case "ndjson":
            return _Ndjson(file)
    return _Live(arrow_csv.CSVWriter(file, schema), file)


class _Live:
    """A format that is readable while it grows: every batch is passed on at once."""

    def __init__(self, writer: Any, file: BinaryIO):
        self._writer = writer
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._file.flush()

    def close(self) -> None:
        self._writer.close()


class _Collected:
    """A format with a footer: small batches are put together first."""

    def __init__(self, writer: Any, schema: pa.Schema):
        self._writer = writer
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROW_GROUP:
            self._pass_on()

    def close(self) -> None:
        self._pass_on()
        self._writer.close()

    def _pass_on(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
            self._writer.write_table(table)
        self._waiting, self._rows = [], 0


class _Ndjson:
    def __init__(self, file: BinaryIO):
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write(_json_lines(batch))
        self._file.flush()

    def close(self) -> None: ...


def _json_lines(batch: pa.RecordBatch) -> bytes:
    # As text, because Python's own dates are coarser than a nanosecond and end in year 9999.
    columns = [
        column.cast(pa.string()) if pa.types.is_temporal(column.type) else column
        for column in batch.columns
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return "".join(json.dumps(row, default=str) + "\n" for row in rows).encode()
