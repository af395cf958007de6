"""A physical stream: something with a schema that yields batches when asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from eddyline.errors import DataError
from eddyline.io.takeable import as_takeable, takeable

__all__ = ["ArrowSource", "Heartbeat", "Source"]


@dataclass(frozen=True)
class Heartbeat:
    """A promise that no row with a smaller time follows on this stream.

    ``time`` is in the units of the stream's own time column.
    """

    time: int


@runtime_checkable
class Source(Protocol):
    """Yields record batches of one schema, lazily, once; between them, perhaps heartbeats."""

    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch | Heartbeat]: ...

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
        if type(data).__name__ == "DuckDBPyRelation":
            # Two relations of one connection cannot stream at the same time.
            data = data.to_arrow_table()
        self._reader = pa.RecordBatchReader.from_stream(data)
        self._name = name
        self.schema = takeable(self._reader.schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._reader:
                yield as_takeable(batch, self.schema)
        except pa.ArrowException as error:
            raise DataError(f"{self._name}: {error}") from error

    def place(self, row: int) -> str:
        return f"{self._name}, row {row}"

    def progress(self) -> float | None:
        return None
