"""CSV and NDJSON as they arrive: from files or pipes, whole rows at a time.

Arrow's own readers wait for full blocks. Here a block is whatever has arrived, cut at the last
end of a row, so that a slow pipe gives its rows at once and a fast file still comes in megabytes.
"""

import io
import json
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


class _TextSource:
    """What CSV and NDJSON share: blocks of whole rows, one schema, rows counted.

    The types are those of the first block, unless ``types`` says otherwise.
    """

    quotes = False

    def __init__(
        self, file: BinaryIO, name: str, types: dict[str, pa.DataType], *, head: bytes = b""
    ):
        self._name = name
        self._types = types
        self._blocks = _blocks(file, head, quotes=self.quotes)
        self._row = 0
        self._first = self._begin()
        self.schema: pa.Schema = self._first.schema
        unknown = set(types) - set(self.schema.names)
        if unknown:
            raise QueryError(f"{name} has no column {min(unknown)!r} to give a type to")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches(self._first)
        for block in self._blocks:
            yield from self._batches(self._table(block))

    def place(self, row: int) -> str:
        return f"{self._name}, row {row + 1}"

    def _batches(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        self._row += table.num_rows
        yield from table.combine_chunks().to_batches()

    def _begin(self) -> pa.Table:
        raise AssertionError

    def _table(self, block: bytes) -> pa.Table:
        raise AssertionError


class CsvSource(_TextSource):
    """Comma-separated values with a header line."""

    quotes = True

    def _begin(self) -> pa.Table:
        block = next(self._blocks, None)
        if not block or not block.strip():
            raise DataError(f"{self._name} is empty: a CSV file begins with a line of column names")
        return self._table(block, names=None)

    def _table(self, block: bytes, names: list[str] | None = ...) -> pa.Table:  # type: ignore
        names = self.schema.names if names is ... else names
        types = self._types if names is None else {f.name: f.type for f in self.schema}
        # A header without rows would give columns of type null, which join with nothing.
        try:
            table = self._read(block, names, types)
        except pa.ArrowInvalid as error:
            raise DataError(self._explain(block, names, types, error)) from None
        if names is None:
            empty = {f.name: pa.string() for f in table.schema if pa.types.is_null(f.type)}
            if empty:
                table = self._read(block, names, empty | types)
        return table

    def _read(
        self, block: bytes, names: list[str] | None, types: dict[str, pa.DataType]
    ) -> pa.Table:
        return arrow_csv.read_csv(
            io.BytesIO(block),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=names
            ),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=True),
        )

    def _explain(self, block: bytes, names, types, error: Exception) -> str:  # type: ignore
        """Find the row that Arrow complained about; its own message counts from the block."""
        header = int(names is None)
        lines = block.split(b"\n")
        for number, line in enumerate(lines):
            if header and number == 0:
                continue
            if not line.strip():
                continue
            alone = lines[0] + b"\n" + line if header else line
            try:
                self._read(alone, names, types)
            except pa.ArrowInvalid as reason:
                row = self._row + number + 1 - header
                text = (
                    str(reason).split(": ", 1)[-1].replace("Row #2: ", "").replace("Row #1: ", "")
                )
                return (
                    f"{self._name}, row {row}: {text.strip()} (in {line.decode(errors='replace')!r}; "
                    "if the types guessed from the first rows are wrong, give them with --types)"
                )
        return f"{self._name}, near row {self._row + 1}: {error}"


class NdjsonSource(_TextSource):
    """One JSON object per line."""

    def _begin(self) -> pa.Table:
        block = next(self._blocks, None)
        if not block or not block.strip():
            raise DataError(f"{self._name} is empty: NDJSON needs a first row to show its columns")
        return self._parsed(block, pa.schema(list(self._types.items())), "infer")

    def _table(self, block: bytes) -> pa.Table:
        if not block.strip():
            return self.schema.empty_table()
        return self._parsed(block, self.schema, "error").select(self.schema.names)

    def _parsed(self, block: bytes, schema: pa.Schema, unexpected: str) -> pa.Table:
        try:
            return arrow_json.read_json(
                io.BytesIO(block),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=schema, unexpected_field_behavior=unexpected
                ),
            )
        except pa.ArrowInvalid as error:
            raise DataError(self._explain(block, schema, unexpected, error)) from None

    def _explain(self, block: bytes, schema: pa.Schema, unexpected: str, error: Exception) -> str:
        for number, line in enumerate(block.split(b"\n")):
            row = self._row + number + 1
            text = line.decode(errors="replace")
            try:
                if line.strip():
                    json.loads(line)
            except ValueError as reason:
                return f"{self._name}, row {row}: not JSON ({reason}) in {text!r}"
            try:
                if line.strip():
                    arrow_json.read_json(
                        io.BytesIO(line),
                        parse_options=arrow_json.ParseOptions(
                            explicit_schema=schema, unexpected_field_behavior=unexpected
                        ),
                    )
            except pa.ArrowInvalid as reason:
                return f"{self._name}, row {row}: {str(reason).rstrip('.')} (in {text!r})"
        return f"{self._name}, near row {self._row + 1}: {error}"


def _blocks(file: BinaryIO, rest: bytes, *, quotes: bool) -> Iterator[bytes]:
    """Yield what has arrived, cut after the last complete row."""
    while True:
        cut = _row_end(rest, quotes=quotes)
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
        # read1 returns as soon as there is anything.
        more = file.read1(BLOCK)  # type: ignore[attr-defined]
        if not more:
            break
        rest += more
    if rest.strip():
        yield rest


def _row_end(block: bytes, *, quotes: bool) -> int:
    """Return the length of the complete rows; a newline between quotes ends no row."""
    if not quotes or QUOTE not in block:
        return block.rfind(b"\n") + 1
    data = np.frombuffer(block, np.uint8)
    outside = np.cumsum(data == QUOTE) % 2 == 0
    ends = np.flatnonzero((data == NEWLINE) & outside)
    return int(ends[-1]) + 1 if len(ends) else 0
