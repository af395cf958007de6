"""A physical stream: something with a schema that yields batches when asked."""

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from eddyline.errors import DataError

__all__ = ["ArrowSource", "Source"]


class Source(Protocol):
    """Yields record batches of one schema, lazily, once."""

    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def place(self, row: int) -> str:
        """Say where a row is, for people; rows count from 0."""

    def progress(self) -> float | None:
        """Return which share has been read, if that can be known."""


class ArrowSource:
    """Anything that offers the Arrow C stream interface: pyarrow, pandas, Polars, DuckDB.

    Parameters
    ----------
    data : object
        The stream. Lists of batches are not streams; wrap them in a ``pyarrow.Table``.
    name : str
        What to call it in messages.
    """

    def __init__(self, data: Any, *, name: str):
        if not hasattr(data, "__arrow_c_stream__"):
            raise TypeError(
                f"{name} is a {type(data).__name__}, which offers no Arrow stream; pass a pyarrow "
                "table or reader, a pandas or Polars DataFrame or a DuckDB relation"
            )
        self._reader = pa.RecordBatchReader.from_stream(data)
        self._name = name
        self.schema = pa.schema([_takeable(field) for field in self._reader.schema])

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._reader:
                yield batch if batch.schema == self.schema else batch.cast(self.schema)
        except pa.ArrowException as error:
            raise DataError(f"{self._name}: {error}") from error

    def place(self, row: int) -> str:
        return f"{self._name}, row {row}"

    def progress(self) -> float | None:
        return None


def _takeable(field: pa.Field) -> pa.Field:
    """Replace views, as Polars sends them: Arrow cannot pick rows out of them."""
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return field.with_type(views.get(field.type, field.type))
