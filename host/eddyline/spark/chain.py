"""The rows that a unit stores, as chained chunks in Spark's state (BiStream, section 3.3).

Rows enter the newest chunk of their side; a chunk that has grown large, or is some time old, is
archived, and one that no row can match any more is dropped whole.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.biclique.envelope import pack, unpack
from eddyline.clock import earlier
from eddyline.errors import DataError
from eddyline.plan import Window
from eddyline.rowstore import empty
from eddyline.spark.schemas import conformed

__all__ = ["Chain", "Chunk"]

PARTS = 10  # of a window: chunks that a window is in, at the least


@dataclass
class Chunk:
    """What is known of a chunk without reading it."""

    number: int
    rows: int
    bytes: int
    low: int
    high: int
    label: str
    begin: int
    """The latest of the rows that it began with."""


class Chain:
    """Chunks of one side. ``state`` is a MapState from a number to bytes.

    Rows that are added have the ``label``, and none of another one in their chunks. With a
    ``window`` of time, those that come when time has gone on by a part of it begin a new chunk: so
    the old one can be dropped soon, however few rows there are. ``name`` says whose rows these are.
    """

    def __init__(
        self,
        state: Any,
        schema: pa.Schema,
        *,
        chunk_bytes: int,
        name: str = "results",
        label: str = "",
        window: Window | None = None,
    ):
        self._state = state
        self._name = name
        self._label = label
        self._schema = schema
        self._most = chunk_bytes
        self._span = window.size // PARTS if window and window.kind == "time" else None
        self._chunks: list[Chunk] = []

    def open(self, directory: str | None) -> None:
        """Look at the chunks of another unit."""
        self._chunks = [Chunk(**one) for one in json.loads(directory or "[]")]

    @property
    def directory(self) -> str:
        return json.dumps([asdict(one) for one in self._chunks])

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self._chunks)

    @property
    def labels(self) -> set[str]:
        """The labels of the rows that are here."""
        return {one.label for one in self._chunks}

    @property
    def size(self) -> int:
        """Bytes that the chunks have."""
        return sum(one.bytes for one in self._chunks)

    def add(self, rows: pa.RecordBatch, times: np.ndarray) -> None:
        """Add rows to the newest chunk, or to new ones, none of them much too large.

        On its way to the state a chunk is copied many times, which is fast where it fits a cache.
        """
        if not rows.num_rows:
            return
        each = max(1, self._most * rows.num_rows // max(rows.nbytes, 1))
        for begin in range(0, rows.num_rows, each):
            self._add(rows.slice(begin, each), times[begin : begin + each])

    def _add(self, rows: pa.RecordBatch, times: np.ndarray) -> None:
        payload = pack(rows)
        low, high = int(times.min()), int(times.max())
        last = self._chunks[-1] if self._chunks else None
        if last and self._is_open(last, high) and last.bytes + len(payload) <= self._most:
            payload = self._payload(last) + payload
            low, latest = min(low, last.low), max(high, last.high)
            count = last.rows + rows.num_rows
            new = Chunk(last.number, count, len(payload), low, latest, self._label, last.begin)
            self._chunks[-1] = new
        else:
            number = last.number + 1 if last else 0
            new = Chunk(number, rows.num_rows, len(payload), low, high, self._label, high)
            self._chunks.append(new)
        self._state.updateValue((new.number,), (payload,))

    def read(self) -> pa.RecordBatch:
        """Return all rows, those that came first in front.

        Raises
        ------
        DataError
            If they have other columns than those of now: another query has stored them.
        """
        stored = [rows for one in self._chunks for rows in unpack(self._payload(one))]
        for schema in {rows.schema for rows in stored}:
            self._require_alike(schema)
        rows = [conformed(one, self._schema) for one in stored] or [empty(self._schema)]
        return rows[0] if len(rows) == 1 else pa.concat_batches(rows)

    def drop(self, window: Window, watermark: int) -> None:
        """Drop chunks that no row can match whose time is the watermark or later."""
        for one in list(self._expired(window, watermark)):
            self._state.removeKey((one.number,))
            self._chunks.remove(one)

    @property
    def oldest(self) -> int | None:
        """The earliest time of a row."""
        return min((one.low for one in self._chunks), default=None)

    def expiry(self, window: Window) -> int | None:
        """Return the last watermark at which every chunk may still be matched."""
        if window.kind != "time" or not self._chunks:
            return None
        return min(one.high for one in self._chunks) + window.size

    def clear(self) -> None:
        for one in self._chunks:
            self._state.removeKey((one.number,))
        self._chunks = []

    def _require_alike(self, stored: pa.Schema) -> None:
        before, now = (_told(schema) for schema in (stored, self._schema))
        changes = [f"{name} is new" for name in now if name not in before]
        changes += [f"{name} is not there any more" for name in before if name not in now]
        changes += [
            f"{name} was {before[name]} and is {now[name]}"
            for name in now
            if before.get(name, now[name]) != now[name]
        ]
        if changes:
            raise DataError(
                f"the checkpoint has rows of {self._name} with other columns than the query needs "
                f"now: {', '.join(changes)}. Start it with the select, the predicate and the types "
                "that it had, or with another checkpoint; columns may be chosen behind the join"
            )

    def _is_open(self, chunk: Chunk, high: int) -> bool:
        """Say whether rows may be added to a chunk, the latest of which has this time.

        Stragglers do not matter. A row far ahead keeps only those that came with it.
        """
        near = self._span is None or abs(high - chunk.begin) < self._span
        return near and chunk.label == self._label

    def _expired(self, window: Window, watermark: int) -> Iterator[Chunk]:
        if window.kind == "time":
            bound = int(earlier(np.array([watermark]), window.size)[0])
            yield from (one for one in self._chunks if one.high < bound)
        elif window.kind == "rows":
            newer = self.rows
            for one in self._chunks:
                newer -= one.rows
                if newer < window.size:
                    return
                yield one

    def _payload(self, chunk: Chunk) -> bytes:
        return self._state.getValue((chunk.number,))[0]


def _told(schema: pa.Schema) -> dict[str, str]:
    return {one.name: str(one.type) for one in schema}
