"""Rows that wait on the host while their words travel through a device."""

import numpy as np
import pyarrow as pa

from eddyline.errors import DataError

__all__ = ["RowStore", "StreamRows", "concatenated", "empty", "integers"]

# Small batches are put together so that finding a row stays cheap.
SMALL = 4096
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
        while (
            len(self._batches) > 1
            and SMALL > self._batches[-1].num_rows > self._batches[-2].num_rows // 2
        ):
            self._batches[-2:] = [concatenated(self._batches[-2:])]
            self._left[-2:] = [sum(self._left[-2:])]
            del self._starts[-1]

    def take(self, positions: np.ndarray, columns: list[str]) -> list[pa.RecordBatch]:
        """Return one row or more, in the order asked for; let go of batches that are used up."""
        starts = np.array(self._starts)
        owner = np.searchsorted(starts, positions, "right") - 1
        # Runs of neighbours within one batch are slices; rows that were sorted are many short runs.
        cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(positions) != 1)) + 1
        if len(cuts) > MANY:
            table = pa.Table.from_batches(self._batches).select(columns)
            parts = table.take(integers(positions - starts[0])).to_batches()
        else:
            begins, ends = [0, *cuts.tolist()], [*cuts.tolist(), len(positions)]
            parts = [
                self._batches[owner[a]]
                .slice(positions[a] - starts[owner[a]], b - a)
                .select(columns)
                for a, b in zip(begins, ends, strict=True)
            ]
        self._release(np.bincount(owner))
        return parts

    def _release(self, taken: np.ndarray) -> None:
        for index, count in enumerate(taken.tolist()):
            self._left[index] -= count
        used = next((i for i, left in enumerate(self._left) if left), len(self._left))
        del self._starts[:used], self._batches[:used], self._left[:used]


class RowStore:
    """The rows of one side that a result may still name, by sequence number.

    Ids on a device are sequence numbers modulo ``2**id_bits``.
    """

    def __init__(self, schema: pa.Schema, *, id_bits: int):
        self._schema = schema
        self._mask = (1 << id_bits) - 1
        self._starts: list[int] = []
        self._batches: list[pa.RecordBatch] = []
        self._times: list[np.ndarray] = []
        self._latest: list[np.ndarray] = []  # the latest time up to each row
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
        self._starts.append(self.count)
        self._batches.append(batch)
        self._times.append(times)
        latest = np.maximum.accumulate(times)
        self._latest.append(np.maximum(latest, self._latest[-1][-1]) if self._latest else latest)
        self.count += batch.num_rows
        while (
            len(self._batches) > 1
            and SMALL > self._batches[-1].num_rows > self._batches[-2].num_rows // 2
        ):
            self._batches[-2:] = [concatenated(self._batches[-2:])]
            self._times[-2:] = [np.concatenate(self._times[-2:])]
            self._latest[-2:] = [np.concatenate(self._latest[-2:])]
            del self._starts[-1]

    def drop_below(self, first: int) -> None:
        """Forget rows with a smaller sequence number."""
        self.first = max(self.first, min(first, self.count))
        ends = [*self._starts[1:], self.count]
        gone = sum(end <= self.first for end in ends)
        del self._starts[:gone], self._batches[:gone], self._times[:gone]
        del self._latest[:gone]

    def first_at(self, oldest: int) -> int:
        """Return the sequence number of the first row whose time is at least ``oldest``."""
        for start, latest in zip(self._starts, self._latest, strict=True):
            if int(latest[-1]) >= oldest:
                return max(self.first, start + int(np.searchsorted(latest, oldest, "left")))
        return self.count

    @property
    def bytes_per_row(self) -> int:
        rows = sum(batch.num_rows for batch in self._batches)
        return sum(batch.nbytes for batch in self._batches) // max(rows, 1)

    def take(self, ids: np.ndarray, columns: list[str]) -> tuple[pa.Table, np.ndarray]:
        """Return rows by id, and their times."""
        if not self._batches:
            nothing = pa.Table.from_batches([empty(self._schema).select(columns)])
            return nothing, np.empty(0, np.int64)
        begin = self._starts[0]
        back = (ids.astype(np.int64) - self.first) & self._mask
        places = back + (self.first - begin)
        table = pa.Table.from_batches([one.select(columns) for one in self._batches])
        return table.take(integers(places)), np.concatenate(self._times)[places]
