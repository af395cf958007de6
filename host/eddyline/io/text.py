"""CSV and NDJSON as they arrive: from files or pipes, whole rows at a time.

Arrow's own readers wait for full blocks. Here a block is whatever has arrived, cut at the last
end of a row, so that a slow pipe gives its rows at once and a fast file still comes in megabytes.
"""

import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from eddyline.errors import DataError, QueryError

__all__ = ["CsvSource", "NdjsonSource"]

BLOCK = 1 << 20
BOM = b"\xef\xbb\xbf"
# What stands for NULL in a CSV cell without quotes; "nan" is a number, and "NA" is a country.
NULLS = ["", "NULL", "null"]
HINT = "if the types guessed from the first rows are wrong, give them with --types"

Types = dict[str, pa.DataType]


class _TextSource:
    """What CSV and NDJSON share: blocks of whole rows, one schema, rows counted.

    The types are those of the first rows to arrive, unless ``types`` says otherwise, or ``like``,
    which may tell of columns that are not there.
    """

    def __init__(self, file: BinaryIO, name: str, types: Types, like: Types):
        self._name = name
        self._types = like | types
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
        rest = bytearray()
        while more := file.read1(BLOCK):  # type: ignore[attr-defined]
            more = more if self._consumed else more.removeprefix(BOM)
            self._consumed += len(more)
            cut = self._row_end(more)
            rest += more[: cut or len(more)]
            if cut:
                yield bytes(rest)
                rest = bytearray(more[cut:])
        self._end()
        if rest:
            yield bytes(rest) + b"\n"

    def _row_end(self, more: bytes) -> int:
        """Return the place after the last complete row of what has just arrived, or 0."""
        return more.rfind(b"\n") + 1

    def _end(self) -> None:
        """Check that the stream may end here."""

    def _begin(self) -> pa.Table:
        """Read the first rows and find the schema."""
        raise AssertionError

    def _following(self, block: bytes) -> pa.Table:
        """Read further rows by the schema."""
        raise AssertionError

    def _located(
        self, rows: list[bytes], parse: Callable[[bytes], object], names: list[str], header: int
    ) -> str:
        """Say which row Arrow stumbles over: the last of the shortest block that fails.

        Arrow counts rows from the start of a block and columns by number.
        """
        works, fails = header, len(rows)
        error: Exception = AssertionError("the whole block was read")
        while works < fails:
            middle = (works + fails) // 2
            try:
                parse(b"".join(rows[: middle + 1]))
                works = middle + 1
            except (pa.ArrowInvalid, UnicodeDecodeError) as reason:
                fails, error = middle, reason
        text = rows[min(fails, len(rows) - 1)].decode(errors="replace").rstrip("\r\n")
        said = str(error).splitlines()[0]
        said = re.sub(r"^(CSV|JSON) parse error: |Row #\d+: |\.? in row \d+$", "", said)
        column = re.match(r"In CSV column #(\d+): ", said)
        if column and int(column[1]) < len(names):
            said = f"column {names[int(column[1])]!r}: {said[column.end() :]}"
        return (
            f"{self._name}, row {self._rows + fails - header + 1}: {said.rstrip('.')} "
            f"(in {text[:200]!r}; {HINT})"
        )


class CsvSource(_TextSource):
    """Comma-separated values with a header line."""

    _state = 0
    _quoted = False

    def _row_end(self, more: bytes) -> int:
        # Without a quote so far, every newline ends a row; most files never have one.
        if not self._quoted and b'"' not in more:
            self._state = _plain_state(more, self._state)
            return super()._row_end(more)
        from eddyline.io.rowends import row_ends

        self._quoted = True
        ends, self._state = row_ends(more, self._state)
        return int(ends[-1]) if len(ends) else 0

    def _end(self) -> None:
        if self._quoted:
            from eddyline.io.rowends import QUOTED

            if self._state == QUOTED:
                raise DataError(
                    f"{self._name}, row {self._rows + 1} or later: a quote is never closed"
                )

    def _begin(self) -> pa.Table:
        block = b""
        for more in self._blocks:  # types show only in a row, which may come after the header
            block += more
            if len(_csv_rows(block)) > 1:
                break
        rows = _csv_rows(block)
        if not rows:
            raise DataError(f"{self._name} is empty: a CSV file begins with a line of column names")
        try:
            rows[0].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{self._name}: the column names are not UTF-8 ({error})") from None
        # In a file of one column, an empty line is a row: its only cell is NULL.
        self._narrow = b"," not in rows[0]
        block = block.lstrip(b"\r\n")
        table = self._read(block, None, self._types)
        untyped = {f.name: pa.string() for f in table.schema if pa.types.is_null(f.type)}
        if table.num_rows and untyped:  # nothing but empty cells so far: anything may follow
            table = self._read(block, None, untyped | self._types)
        for field in table.schema:
            if pa.types.is_binary(field.type):  # what Arrow makes of bytes that are no text
                table = self._read(block, None, {field.name: pa.string()} | self._types)
        return table

    def _following(self, block: bytes) -> pa.Table:
        if not self._narrow and not block.strip():
            return self.schema.empty_table()
        types = {field.name: field.type for field in self.schema}
        return self._read(block, self.schema.names, types)

    def _read(self, block: bytes, names: list[str] | None, types: Types) -> pa.Table:
        def parse(part: bytes) -> pa.Table:
            return _read_csv(part, names, types, empty_lines=self._narrow)

        try:
            return parse(block)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            rows = _csv_rows(block, empty_lines=self._narrow)
            header = names or rows[0].decode(errors="replace").strip().split(",")
            raise DataError(self._located(rows, parse, header, int(names is None))) from None


def _plain_state(more: bytes, state: int) -> int:
    """Return the state after text without quotes: at the start of a cell, or within one."""
    from_cell, within = 0, 1
    return from_cell if more.endswith((b"\n", b",")) else within if more else state


def _csv_rows(block: bytes, *, empty_lines: bool = False) -> list[bytes]:
    """Split a block into rows, as the CSV parser does."""
    if b'"' in block:
        from eddyline.io.rowends import row_ends

        ends = row_ends(block)[0].tolist()
    else:
        ends = (np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1).tolist()
    rows = [block[a:b] for a, b in zip([0, *ends], [*ends, len(block)], strict=True)]
    return [row for row in rows if row.strip(b"\r\n") or (empty_lines and row)]


def _read_csv(
    block: bytes, names: list[str] | None, types: Types, *, empty_lines: bool
) -> pa.Table:
    return arrow_csv.read_csv(
        io.BytesIO(block),
        read_options=arrow_csv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=names
        ),
        parse_options=arrow_csv.ParseOptions(
            newlines_in_values=True, ignore_empty_lines=not empty_lines
        ),
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
        # Arrow reads days as numbers only.
        as_text = {f.name: pa.string() for f in schema if pa.types.is_date(f.type)}
        read = pa.schema([(f.name, as_text.get(f.name, f.type)) for f in schema])

        def parse(part: bytes) -> pa.Table:
            table = _read_json(part, read, unexpected)
            for name in as_text:
                place = table.schema.get_field_index(name)
                days = table[name].cast(schema.field(name).type)
                table = table.set_column(place, schema.field(name), days)
            return table

        try:
            return parse(block)
        except pa.ArrowInvalid:
            rows = [row + b"\n" for row in block.split(b"\n") if row.strip()]
            raise DataError(self._located(rows, parse, [], 0)) from None


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
