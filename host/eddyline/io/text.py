"""CSV and NDJSON as they arrive: from files or pipes, whole rows at a time.

Arrow's own readers wait for full blocks. Here a block is whatever has arrived, cut at the last
end of a row, so that a slow pipe gives its rows at once and a fast file still comes in megabytes.
"""

import io
import json
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from eddyline.errors import DataError, QueryError

__all__ = ["CsvSource", "NdjsonSource"]

BLOCK = 1 << 20
NEWLINE, QUOTE = ord("\n"), ord('"')
# What stands for NULL in a CSV cell without quotes; "nan" is a number.
NULLS = ["", "NULL", "null", "NA", "N/A", "n/a", "#N/A"]
HINT = "if the types guessed from the first rows are wrong, give them with --types"


class _TextSource:
    """What CSV and NDJSON share: blocks of whole rows, one schema, rows counted.

    The types are those of the first rows to arrive, unless ``types`` says otherwise.
    """

    def __init__(self, file: BinaryIO, name: str, types: dict[str, pa.DataType]):
        self._name = name
        self._types = types
        self._size = _size(file)
        self._consumed = 0
        self._rows = 0
        self._blocks = self._whole_rows(file)
        self._first = self._begin()
        self.schema: pa.Schema = self._first.schema
        unknown = set(types) - set(self.schema.names)
        if unknown:
            raise QueryError(f"{name} has no column {min(unknown)!r} to give a type to")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches(self._first)
        for block in self._blocks:
            yield from self._batches(self._following(block))

    def place(self, row: int) -> str:
        return f"{self._name}, row {row + 1}"

    def progress(self) -> float | None:
        return min(1.0, self._consumed / self._size) if self._size else None

    def _batches(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        self._rows += table.num_rows
        yield from table.combine_chunks().to_batches()

    def _whole_rows(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield what has arrived, cut after the last complete row."""
        rest = b""
        while more := file.read1(BLOCK):  # type: ignore[attr-defined]
            self._consumed += len(more)
            rest += more
            if cut := self._row_end(rest):
                yield rest[:cut]
                rest = rest[cut:]
        if rest.strip():
            yield rest

    def _row_end(self, block: bytes) -> int:
        return block.rfind(b"\n") + 1

    def _begin(self) -> pa.Table:
        """Read the first rows and find the schema."""
        raise AssertionError

    def _following(self, block: bytes) -> pa.Table:
        """Read further rows by the schema."""
        raise AssertionError


class CsvSource(_TextSource):
    """Comma-separated values with a header line."""

    def _row_end(self, block: bytes) -> int:
        """Return the length of the complete rows; a newline between quotes ends no row."""
        if QUOTE not in block:
            return super()._row_end(block)
        data = np.frombuffer(block, np.uint8)
        outside = np.cumsum(data == QUOTE) % 2 == 0
        ends = np.flatnonzero((data == NEWLINE) & outside)
        return int(ends[-1]) + 1 if len(ends) else 0

    def _begin(self) -> pa.Table:
        block = b""
        for more in self._blocks:  # types show only in a row, which may come after the header
            block += more
            if len(block.split(b"\n", 2)) > 1 and block.split(b"\n", 1)[1].strip():
                break
        if not block.strip():
            raise DataError(f"{self._name} is empty: a CSV file begins with a line of column names")
        table = self._read(block, None, self._types)
        untyped = {f.name: pa.string() for f in table.schema if pa.types.is_null(f.type)}
        if table.num_rows and untyped:  # nothing but empty cells so far: anything may follow
            table = self._read(block, None, untyped | self._types)
        return table

    def _following(self, block: bytes) -> pa.Table:
        if not block.strip():
            return self.schema.empty_table()
        types = {field.name: field.type for field in self.schema}
        return self._read(block, self.schema.names, types)

    def _read(
        self, block: bytes, names: list[str] | None, types: dict[str, pa.DataType]
    ) -> pa.Table:
        try:
            return _read_csv(block, names, types)
        except pa.ArrowInvalid as error:
            raise DataError(self._explain(block, names, types, error)) from None

    def _explain(
        self,
        block: bytes,
        names: list[str] | None,
        types: dict[str, pa.DataType],
        error: pa.ArrowInvalid,
    ) -> str:
        """Find the row that Arrow complains about; its own message counts from the block."""
        lines = [line for line in block.split(b"\n") if line.strip()]
        header = [] if names else [lines.pop(0)]
        for number, line in enumerate(lines if QUOTE not in block else [], start=self._rows + 1):
            try:
                _read_csv(b"\n".join([*header, line]), names, types)
            except pa.ArrowInvalid as reason:
                text = line.decode(errors="replace")
                return f"{self._name}, row {number}: {_plain(reason)} (in {text!r}; {HINT})"
        return f"{self._name}, after row {self._rows}: {_plain(error)} ({HINT})"


def _read_csv(block: bytes, names: list[str] | None, types: dict[str, pa.DataType]) -> pa.Table:
    return arrow_csv.read_csv(
        io.BytesIO(block),
        read_options=arrow_csv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=names
        ),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types,
            null_values=NULLS,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


class NdjsonSource(_TextSource):
    """One JSON object per line."""

    def _begin(self) -> pa.Table:
        block = next(self._blocks, b"")
        if not block.strip():
            raise DataError(f"{self._name} is empty: NDJSON needs a first row to show its columns")
        return self._read(block, pa.schema(list(self._types.items())), "infer")

    def _following(self, block: bytes) -> pa.Table:
        if not block.strip():
            return self.schema.empty_table()
        return self._read(block, self.schema, "error").select(self.schema.names)

    def _read(self, block: bytes, schema: pa.Schema, unexpected: str) -> pa.Table:
        try:
            return _read_json(block, schema, unexpected)
        except pa.ArrowInvalid as error:
            raise DataError(self._explain(block, schema, unexpected, error)) from None

    def _explain(
        self, block: bytes, schema: pa.Schema, unexpected: str, error: pa.ArrowInvalid
    ) -> str:
        lines = (line for line in block.split(b"\n") if line.strip())
        for number, line in enumerate(lines, start=self._rows + 1):
            text = line.decode(errors="replace")
            try:
                json.loads(line)
                _read_json(line, schema, unexpected)
            except pa.ArrowInvalid as reason:
                return f"{self._name}, row {number}: {_plain(reason)} (in {text!r}; {HINT})"
            except ValueError as reason:
                return f"{self._name}, row {number}: not JSON: {reason} (in {text!r})"
        return f"{self._name}, after row {self._rows}: {_plain(error)} ({HINT})"


def _read_json(block: bytes, schema: pa.Schema, unexpected: str) -> pa.Table:
    return arrow_json.read_json(
        io.BytesIO(block),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=unexpected
        ),
    )


def _size(file: BinaryIO) -> int:
    """Return the size of a regular file, and 0 for a pipe."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _plain(error: Exception) -> str:
    """Drop the row numbers of Arrow's message: they count from the start of a block."""
    text = str(error).splitlines()[0].rstrip(".")
    for noise in ("CSV parse error: ", "JSON parse error: ", "Row #1: ", "Row #2: "):
        text = text.replace(noise, "")
    return text
