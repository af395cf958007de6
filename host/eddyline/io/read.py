"""Open an input by its name: Parquet, Arrow IPC, CSV or NDJSON, or ``-`` for stdin."""

import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.errors import DataError, QueryError
from eddyline.io.source import Source
from eddyline.io.takeable import as_takeable, takeable
from eddyline.io.text import BOM, CsvSource, NdjsonSource

__all__ = ["FORMATS", "open_source"]

FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson",
    ".json": "ndjson", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow",
}  # fmt: skip
BATCH = 1 << 16


def open_source(
    name: str,
    types: dict[str, pa.DataType] | None = None,
    *,
    like: dict[str, pa.DataType] | None = None,
) -> Source:
    """Open a file or stdin.

    The content decides the format where it has a mark of its own, else the extension; stdin
    without a mark is NDJSON when it begins with a brace, and CSV otherwise. ``types`` are those of
    CSV and NDJSON columns; ``like`` is the same, but means nothing to formats that have types.

    Raises
    ------
    DataError
        If the file is missing, unreadable or not what it seems.
    """
    file = _open(name)
    try:
        source = _source(name, file, types or {}, like or {})
    except BaseException:
        file.close()
        raise
    if name != "-":
        weakref.finalize(source, file.close)
    return source


def _source(
    name: str, file: BinaryIO, types: dict[str, pa.DataType], like: dict[str, pa.DataType]
) -> Source:
    called = "stdin" if name == "-" else name
    try:
        # peek waits for the first bytes of a pipe but takes nothing away.
        head = file.peek(8)[:8]  # type: ignore[attr-defined]
        format_ = _format(name, head)
        if format_ in ("parquet", "arrow") and types:
            raise QueryError(f"{name} carries its own types; --types is for CSV and NDJSON")
        match format_:
            case "parquet":
                return _Parquet(name, file)
            case "arrow":
                return _Arrow(name, file, head)
            case "ndjson":
                return NdjsonSource(file, called, types, like)
            case _:
                return CsvSource(file, called, types, like)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot read {name}: {error}") from None


def _open(name: str) -> BinaryIO:
    if name == "-":
        if sys.stdin is None:
            raise DataError("stdin is closed: give a file's name, or pipe something in")
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except FileNotFoundError:
        raise DataError(f"no such file: {name}") from None
    except OSError as error:
        raise DataError(f"cannot open {name}: {error.strerror}") from None


def _format(name: str, head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if name == "-":
        return "ndjson" if head.removeprefix(BOM).lstrip().startswith(b"{") else "csv"
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise DataError(f"cannot tell the format of {name} from its name (known: {known}, or -)")
    return FORMATS[suffix]


class _Columnar:
    """A file that Arrow reads in batches."""

    schema: pa.Schema

    def __init__(self, name: str):
        self._name = "stdin" if name == "-" else name
        self._done = self._total = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches():
                yield as_takeable(batch, self.schema)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self._name} is damaged: {error}") from None

    def _batches(self) -> Iterator[pa.RecordBatch]:
        raise AssertionError

    def place(self, row: int) -> str:
        return f"{self._name}, row {row + 1}"

    def progress(self) -> float | None:
        return self._done / self._total if self._total else None


class _Parquet(_Columnar):
    def __init__(self, name: str, file: BinaryIO):
        super().__init__(name)
        if name == "-":
            raise DataError("Parquet cannot be read from a pipe: give the file's name")
        self._file = pq.ParquetFile(file)
        self.schema = takeable(self._file.schema_arrow)
        self._total = self._file.metadata.num_rows

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._file.iter_batches(BATCH):
            self._done += batch.num_rows
            yield batch


class _Arrow(_Columnar):
    def __init__(self, name: str, file: BinaryIO, head: bytes):
        super().__init__(name)
        if head.startswith(b"ARROW1"):
            if name == "-":
                raise DataError("an Arrow file cannot be read from a pipe: send an Arrow stream")
            self._file = pa.ipc.open_file(file)
            self._stream = None
            self.schema = takeable(self._file.schema)
            self._total = self._file.num_record_batches
        else:
            self._stream = pa.ipc.open_stream(file)
            self.schema = takeable(self._stream.schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._stream is not None:
            yield from self._stream
        else:
            for number in range(self._total):
                self._done = number + 1
                yield self._file.get_batch(number)
