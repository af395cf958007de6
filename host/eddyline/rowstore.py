"""Rows that wait on the host while their words travel through a device."""

from collections import deque

import numpy as np
import pyarrow as pa

__all__ = ["RowStore", "StreamRows"]

# Small batches are put together so that finding a row stays cheap.
MANY = 64


class StreamRows:
    """Rows of one physical stream that the gate has not released yet, by position."""

    def __init__(self) -> None:
        self._starts: deque[int] = deque()
        self._batches: deque[pa.RecordBatch] = deque()
        self._left: deque[int] = deque()
        self.count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._starts.append(self.count)
            self._batches.append(batch)
            self._left.append(batch.num_rows)
            self.count += batch.num_rows

    def take(self, positions: np.ndarray) -> list[pa.RecordBatch]:
        """Return one row or more, in the order asked for; let go of batches that are used up."""
        starts = np.array(self._starts)
        owner = np.searchsorted(starts, positions, "right") - 1
        # Runs of neighbours within one batch are slices; rows that were sorted are many short runs.
        cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(positions) != 1)) + 1
        if len(cuts) > MANY:
            table = pa.Table.from_batches(self._batches).take(pa.array(positions - starts[0]))
            parts = table.combine_chunks().to_batches()
        else:
            begins, ends = [0, *cuts.tolist()], [*cuts.tolist(), len(positions)]
            parts = [
                self._batches[owner[a]].slice(positions[a] - starts[owner[a]], b - a)
                for a, b in zip(begins, ends, strict=True)
            ]
        self._release(np.bincount(owner))
        return parts

    def _release(self, taken: np.ndarray) -> None:
        for index, count in enumerate(taken.tolist()):
            self._left[index] -= count
        while self._left and not self._left[0]:
            for queue in (self._starts, self._batches, self._left):
                queue.popleft()


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
        self.count = 0
        self.first = 0

    def __len__(self) -> int:
        return self.count - self.first

    def append(self, batch: pa.RecordBatch, times: np.ndarray) -> None:
        if not batch.num_rows:
            return
        self._starts.append(self.count)
        self._batches.append(batch)
        self._times.append(times)
        self.count += batch.num_rows
        if len(self._batches) > MANY:
            self._merge_small()

    def drop_below(self, first: int) -> None:
        """Forget rows with a smaller sequence number."""
        self.first = max(self.first, min(first, self.count))
        ends = [*self._starts[1:], self.count]
        gone = sum(end <= self.first for end in ends)
        del self._starts[:gone], self._batches[:gone], self._times[:gone]

    def first_at(self, oldest: int) -> int:
        """Return the sequence number of the first row whose time is at least ``oldest``."""
        for start, times in zip(self._starts, self._times, strict=True):
            if int(times[-1]) >= oldest:
                return max(self.first, start + int(np.searchsorted(times, oldest, "left")))
        return self.count

    def take(self, ids: np.ndarray, columns: list[str]) -> tuple[pa.Table, np.ndarray]:
        """Return rows by id, and their times."""
        if not self._batches:
            return self._schema.empty_table().select(columns), np.empty(0, np.int64)
        begin = self._starts[0]
        back = (ids.astype(np.int64) - self.first) & self._mask
        places = back + (self.first - begin)
        table = pa.Table.from_batches([one.select(columns) for one in self._batches])
        return table.take(pa.array(places)), np.concatenate(self._times)[places]

    def _merge_small(self) -> None:
        """Put neighbouring batches together where that at least doubles the smaller one."""
        starts, batches, times = [self._starts[0]], [[self._batches[0]]], [[self._times[0]]]
        sizes = [self._batches[0].num_rows]
        for start, batch, time in zip(
            self._starts[1:], self._batches[1:], self._times[1:], strict=True
        ):
            if sizes[-1] < max(4096, len(self) // MANY):
                batches[-1].append(batch)
                times[-1].append(time)
                sizes[-1] += batch.num_rows
            else:
                starts.append(start)
                batches.append([batch])
                times.append([time])
                sizes.append(batch.num_rows)
        self._starts = starts
        self._batches = [
            pa.Table.from_batches(some).combine_chunks().to_batches()[0]
            if len(some) > 1
            else some[0]
            for some in batches
        ]
        self._times = [np.concatenate(some) for some in times]
