"""What a unit knows of one side: its stored rows, their ages, and the records made of them."""

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from eddyline.clock import EARLIEST, earlier
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.plan import Window
from eddyline.query import Query
from eddyline.results import needed_columns
from eddyline.rowstore import RowStore
from eddyline.times import times_of

__all__ = ["SHOWN", "Batch", "Side", "sent_columns"]

# Ids of stored rows are below; those of rows that are only shown are above, anew in each batch.
SHOWN = 1 << 31


def sent_columns(query: Query, side: str) -> list[str]:
    """Return the columns of a side that a unit needs."""
    needed = set(needed_columns(query, side))
    if query.time:
        needed.add(query.time[side == "s"])
    return [name for name in query.schema(side).names if name in needed]


@dataclass(frozen=True)
class Aged:
    """Times of stored rows that came together: their own, and what the device was told."""

    first: int
    own: np.ndarray
    told: np.ndarray

    @cached_property
    def low(self) -> int:
        return int(self.own.min())

    @cached_property
    def high(self) -> int:
        return int(self.own.max())

    def before(self, bound: int) -> int:
        """Return how many of the rows are older."""
        if self.low >= bound:
            return 0
        return len(self.own) if self.high < bound else int(np.count_nonzero(self.own < bound))


@dataclass(frozen=True)
class Batch:
    """Rows of one side of a batch, in order, with what was made of them."""

    rows: pa.RecordBatch
    times: np.ndarray
    stores: np.ndarray
    records: np.ndarray

    @cached_property
    def shown(self) -> pa.RecordBatch:
        return self.rows.filter(pa.array(~self.stores))


class Side:
    """What a unit knows of one side."""

    def __init__(self, query: Query, side: str, dictionary: Dictionary):
        self.query = query
        self.side = side
        self.window: Window = query.plan.window(side)
        self.columns = sent_columns(query, side)
        self.encoder = SideEncoder(query.lowering.side(side), dictionary, side=side)
        self.store = RowStore(_picked(query.schema(side), self.columns), id_bits=31)
        self.aged: deque[Aged] = deque()
        self.passed = 0

    def times(self, rows: pa.RecordBatch) -> np.ndarray:
        if not self.query.time:
            return np.zeros(rows.num_rows, np.int64)
        return times_of(self.query, self.side, rows, lambda row: f"stream {self.side}, row {row}")

    def enter(
        self, rows: pa.RecordBatch, times: np.ndarray, told: np.ndarray, stores: np.ndarray | None
    ) -> Batch:
        """Store what is to be stored, by default all, and make records of all rows."""
        records = self.encoder.encode(rows, first=self.passed, times=told)
        self.passed += len(records)
        if stores is None or stores.all():
            stores = np.ones(len(records), bool)
            records["id"] = (self.store.count + np.arange(len(records))) & (SHOWN - 1)
            own, when = rows, times
        else:
            ids = np.where(stores, self.store.count + np.cumsum(stores) - 1, 0) & (SHOWN - 1)
            records["id"] = np.where(stores, ids, SHOWN + np.cumsum(~stores) - 1)
            own, when, told = rows.filter(pa.array(stores)), times[stores], told[stores]
        if own.num_rows:
            self.aged.append(Aged(self.store.count, when, told))
            self.store.append(own, when)
        return Batch(rows, times, stores, records)

    def records_of(self, places: np.ndarray, told: np.ndarray) -> np.ndarray:
        """Make records of stored rows again."""
        records = self.encoder.encode(self.rows_at(places), first=0, times=told)
        records["id"] = places & (SHOWN - 1)
        return records

    def rows_at(self, places: np.ndarray) -> pa.RecordBatch:
        table = self.store.take(places, self.columns).combine_chunks()
        return table.to_batches()[0] if len(table) else self.store.empty

    def held(self, ids: np.ndarray) -> np.ndarray:
        """Say which ids are of rows that are stored, or of this batch."""
        back = (ids.astype(np.int64) - self.store.first) & (SHOWN - 1)
        return (ids >= SHOWN) | (back < len(self.store))

    def take(
        self, ids: np.ndarray, columns: list[str], batch: Batch
    ) -> tuple[pa.Table, np.ndarray]:
        shown = ids >= SHOWN
        if not shown.any():
            return self.store.take(ids, columns), self.store.times(ids)
        places = (ids[shown] - SHOWN).astype(np.int64)
        late = pa.Table.from_batches([batch.shown.select(columns)]).take(pa.array(places))
        late_times = batch.times[~batch.stores][places]
        if shown.all():
            return late, late_times
        early, early_times = self.store.take(ids[~shown], columns), self.store.times(ids[~shown])
        order = np.empty(len(ids), np.int64)
        order[np.concatenate([np.flatnonzero(~shown), np.flatnonzero(shown)])] = np.arange(len(ids))
        both = pa.concat_tables([early, late]).take(pa.array(order))
        return both, np.concatenate([early_times, late_times])[order]

    def width(self, batch: Batch) -> int:
        """Return the bytes of a row, of this batch or stored, whichever has more."""
        return max(self.store.bytes_per_row, batch.rows.nbytes // max(batch.rows.num_rows, 1))

    def forget(self, watermark: int) -> None:
        """Let go of what no row of the other side that is not older can meet."""
        if self.window.kind == "rows":
            self.store.drop_below(self.store.count - self.window.size)
            while self.aged and self.aged[0].first + len(self.aged[0].own) <= self.store.first:
                self.aged.popleft()
        elif self.window.kind == "time":
            bound = self._bound(watermark)
            while self.aged and self.aged[0].high < bound:
                self.aged.popleft()
            self.store.drop_below(self.aged[0].first if self.aged else self.store.count)

    def needless(self, watermark: int) -> int:
        """Return how many rows are still here that could be let go of."""
        bound = self._bound(watermark)
        return sum(one.before(bound) for one in self.aged)

    def needed(self, watermark: int) -> pa.RecordBatch:
        """Return the other ones."""
        times = [one.own for one in self.aged]
        own = np.concatenate(times) if times else np.empty(0, np.int64)
        places = self.store.count - len(own) + np.flatnonzero(own >= self._bound(watermark))
        return self.rows_at(places[places >= self.store.first])

    def _bound(self, watermark: int) -> int:
        if self.window.kind != "time":
            return EARLIEST
        return int(earlier(np.array([watermark]), self.window.size)[0])


def _picked(schema: pa.Schema, columns: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in columns])
