"""Rows that wait on the host while their words travel through a device."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.errors import DataError
from eddyline.query.types import numbers

__all__ = ["RowStore", "StreamRows", "concatenated", "empty", "integers"]

# Small batches are put together so that finding a row stays cheap.
SMALL = 4096
# So are larger ones of short values, of which Arrow takes rows from one batch several times as
# fast as from two.
LARGE = 1 << 22
MANY = 64


def concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Put batches of one schema together, or say why that is impossible."""
    if len(batches) == 1:
        return batches[0]
    try:
        return pa.concat_batches(batches)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        rows = sum(batch.num_rows for batch in batches)
        raise DataError(
            f"{rows} rows do not fit one batch ({error}): use a smaller batch"
        ) from None


# What Arrow makes of Python's and numpy's values loads pandas, which takes a second.


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)


def integers(values: np.ndarray) -> pa.Array:
    """Return integers of 64 bits as an array."""
    values = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


class StreamRows:
    """Rows of one physical stream that the gate has not released yet, by position."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._batches: list[pa.RecordBatch] = []
        self._left: list[int] = []
        self.count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._starts.append(self.count)
        self._batches.append(batch)
        self._left.append(batch.num_rows)
        self.count += batch.num_rows
        while len(self._batches) > 1 and _merge(*self._batches[-2:]):
            self._batches[-2:] = [concatenated(self._batches[-2:])]
            self._left[-2:] = [sum(self._left[-2:])]
            del self._starts[-1]

    def take(self, positions: np.ndarray, columns: list[str]) -> list[pa.RecordBatch]:
        """Return one row or more, in the order asked for; let go of batches that are used up."""
        starts = np.array([*self._starts, self.count])
        # Runs of neighbours are slices; rows that were sorted are many short runs.
        cuts = np.flatnonzero(np.diff(positions) != 1) + 1
        if len(cuts) > MANY:
            table = pa.Table.from_batches(self._batches).select(columns)
            parts = table.take(integers(positions - starts[0])).to_batches()
            counts = np.histogram(positions, starts)[0].tolist()
        else:
            parts, counts = [], [0] * len(self._batches)
            for run in np.split(positions, cuts):
                begin, end = int(run[0]), int(run[-1]) + 1
                while begin < end:
                    owner = int(np.searchsorted(starts, begin, "right")) - 1
                    rows = min(end, int(starts[owner + 1])) - begin
                    batch = self._batches[owner]
                    parts.append(batch.slice(begin - int(starts[owner]), rows).select(columns))
                    counts[owner] += rows
                    begin += rows
        self._release(counts)
        return parts

    def _release(self, taken: list[int]) -> None:
        for index, count in enumerate(taken):
            self._left[index] -= count
        used = next((i for i, left in enumerate(self._left) if left), len(self._left))
        del self._starts[:used], self._batches[:used], self._left[:used]


@dataclass(frozen=True)
class _Part:
    """Rows of a store that came together, from sequence number ``start`` on."""

    start: int
    rows: pa.RecordBatch
    times: np.ndarray
    latest: np.ndarray  # the latest time up to each row
    bytes: int

    def without(self, first: int) -> "_Part":
        """Return the rows from a sequence number on."""
        gone = max(first - self.start, 0)
        if not gone:
            return self
        rows = self.rows.slice(gone)
        return _Part(self.start + gone, rows, self.times[gone:], self.latest[gone:], rows.nbytes)


class RowStore:
    """The rows of one side that a result may still name, by sequence number.

    Ids on a device are sequence numbers modulo ``2**id_bits``.
    """

    def __init__(self, schema: pa.Schema, *, id_bits: int):
        self._schema = schema
        self._mask = (1 << id_bits) - 1
        self._parts: list[_Part] = []
        self.count = 0
        self.first = 0

    def __len__(self) -> int:
        return self.count - self.first

    @property
    def empty(self) -> pa.RecordBatch:
        """A batch of no rows."""
        return empty(self._schema)

    def append(self, batch: pa.RecordBatch, times: np.ndarray) -> None:
        if not batch.num_rows:
            return
        latest = np.maximum.accumulate(times)
        if self._parts:
            latest = np.maximum(latest, self._parts[-1].latest[-1])
        self._parts.append(_Part(self.count, batch, times, latest, batch.nbytes))
        self.count += batch.num_rows
        while len(self._parts) > 1 and self._together(*self._parts[-2:]):
            old, new = self._parts[-2].without(self.first), self._parts[-1]
            rows = concatenated([old.rows, new.rows])
            times = np.concatenate([old.times, new.times])
            latest = np.concatenate([old.latest, new.latest])
            self._parts[-2:] = [_Part(old.start, rows, times, latest, old.bytes + new.bytes)]

    def _together(self, old: "_Part", new: "_Part") -> bool:
        """Say whether parts that follow each other are better one."""
        if not all(map(_is_short, self._schema.types)):
            return _merge(old.rows, new.rows)
        kept = old.start + len(old.times) - max(old.start, self.first)
        return kept <= 2 * len(new.times) and kept + len(new.times) <= LARGE

    def drop_below(self, first: int) -> None:
        """Forget rows with a smaller sequence number."""
        self.first = max(self.first, min(first, self.count))
        gone = sum(part.start + len(part.times) <= self.first for part in self._parts)
        del self._parts[:gone]

    def first_at(self, oldest: int) -> int:
        """Return the sequence number of the first row whose time is at least ``oldest``."""
        for part in self._parts:
            if int(part.latest[-1]) >= oldest:
                place = part.start + int(np.searchsorted(part.latest, oldest, "left"))
                return max(self.first, place)
        return self.count

    @property
    def bytes_per_row(self) -> int:
        rows = sum(len(part.times) for part in self._parts)
        return sum(part.bytes for part in self._parts) // max(rows, 1)

    def take(self, ids: np.ndarray, columns: list[str]) -> pa.Table:
        """Return rows by id.

        Raises
        ------
        pyarrow.ArrowInvalid
            If they are too large for one batch.
        """
        if not self._parts:
            return pa.Table.from_batches([self.empty.select(columns)])
        rows = [part.rows.select(columns) for part in self._parts]
        if all(map(_is_short, rows[0].schema.types)):
            return pa.Table.from_batches(rows).take(integers(self._places(ids)))
        # Arrow would put all of the window's strings together to take some of them.
        places = self._places(ids) + self._parts[0].start
        owner = np.searchsorted([part.start for part in self._parts], places, "right") - 1
        order = np.argsort(owner, kind="stable")
        cuts = np.flatnonzero(np.diff(owner[order], prepend=-1))
        taken = [
            rows[owner[some[0]]].take(integers(places[some] - self._parts[owner[some[0]]].start))
            for some in np.split(order, cuts[1:])
            if len(some)
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        whole = pa.concat_batches(taken) if taken else self.empty.select(columns)
        return pa.Table.from_batches([whole.take(integers(back))])

    def times(self, ids: np.ndarray) -> np.ndarray:
        """Return the times of rows by id."""
        parts = [integers(part.times) for part in self._parts]
        taken = pa.chunked_array(parts, pa.int64()).take(integers(self._places(ids)))
        return numbers(taken.combine_chunks())

    def _places(self, ids: np.ndarray) -> np.ndarray:
        """Return where rows are, from the first that is here: ids repeat, but not among these."""
        back = (ids.astype(np.int64) - self.first) & self._mask
        return back + (self.first - self._parts[0].start if self._parts else 0)


def _merge(old: pa.RecordBatch, new: pa.RecordBatch) -> bool:
    """Say whether batches that follow each other are better one, so that there are few."""
    return SMALL > new.num_rows > old.num_rows // 2


def _is_short(type_: pa.DataType) -> bool:
    """Say whether values have one size, and a small one."""
    return pa.types.is_primitive(type_) or pa.types.is_decimal(type_)
