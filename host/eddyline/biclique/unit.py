"""One unit: the rows it stores, and the batches that meet them.

Rows come in batches, and a batch may be older than the one before it. A pair of rows counts iff
the earlier one (by time, R before S) is in its window when the later one comes, which times alone
decide; so the order of arrival does not matter as long as every pair meets once.

A device wants times that never run backwards. It is given the largest time so far instead of the
time of a row that comes after later ones (a straggler). So it keeps rows too long, never too
short; what it finds is filtered by the real times. Only a straggler's own partners may have left
the device, and are looked up among the stored rows apart.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

import numpy as np
import pyarrow as pa

from eddyline.biclique.meeting import Meeting, Pairs, open_meeting
from eddyline.biclique.order import merged, sorted_places
from eddyline.clock import EARLIEST, earlier
from eddyline.device import Tuples
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.plan import Window
from eddyline.query import Query
from eddyline.results import in_batches, needed_columns, result_batch, result_schema
from eddyline.rowstore import RowStore, empty, integers
from eddyline.times import times_of

__all__ = ["Sent", "Unit", "sent_columns"]

# Ids of stored rows are below; those of rows that are only shown are above, anew in each batch.
SHOWN = 1 << 31
# A unit that holds so many rows beyond four times what it needs is made anew.
SPARE = 1 << 12
SIDES = ("r", "s")


def sent_columns(query: Query, side: str) -> list[str]:
    """Return the columns of a side that a unit needs."""
    needed = set(needed_columns(query, side))
    if query.time:
        needed.add(query.time[side == "s"])
    return [name for name in query.schema(side).names if name in needed]


@dataclass(frozen=True)
class Sent:
    """Rows of one side that are shown to a unit; it stores those that ``stores`` says, or all."""

    rows: pa.RecordBatch
    stores: np.ndarray | None = None


@dataclass(frozen=True)
class _Aged:
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
class _Batch:
    """Rows of one side of a batch, in order, with what was made of them."""

    rows: pa.RecordBatch
    times: np.ndarray
    stores: np.ndarray
    records: np.ndarray

    @cached_property
    def shown(self) -> pa.RecordBatch:
        return self.rows.filter(pa.array(~self.stores))


class _Side:
    """What a unit knows of one side."""

    def __init__(self, query: Query, side: str, dictionary: Dictionary):
        self.query = query
        self.side = side
        self.window: Window = query.plan.window(side)
        self.columns = sent_columns(query, side)
        self.encoder = SideEncoder(query.lowering.side(side), dictionary, side=side)
        self.store = RowStore(_picked(query.schema(side), self.columns), id_bits=31)
        self.aged: deque[_Aged] = deque()
        self.passed = 0

    def times(self, rows: pa.RecordBatch) -> np.ndarray:
        if not self.query.time:
            return np.zeros(rows.num_rows, np.int64)
        return times_of(self.query, self.side, rows, lambda row: f"stream {self.side}, row {row}")

    def enter(
        self, rows: pa.RecordBatch, times: np.ndarray, told: np.ndarray, stores: np.ndarray | None
    ) -> _Batch:
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
            self.aged.append(_Aged(self.store.count, when, told))
            self.store.append(own, when)
        return _Batch(rows, times, stores, records)

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
        self, ids: np.ndarray, columns: list[str], batch: _Batch
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

    def width(self, batch: _Batch) -> int:
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


class Unit:
    """Stores a share of both streams and joins what it is shown.

    Parameters
    ----------
    query : Query
        What to join. Windows of rows are right only if batches come in order and the unit stores
        every row.
    device : str
        Where to join; see :func:`eddyline.open_device`.
    units : int
        Units that rows are shown to, this one included.
    """

    def __init__(self, query: Query, device: str = "auto", *, units: int = 1):
        self.query = query
        self.schema = result_schema(query)
        self._plan = replace(query.plan, order=replace(query.plan.order, kind="none", every=0))
        self._device, self._units = device, units
        self._clock = EARLIEST
        self._latest = 0  # rows of the last batch
        self._begin()

    def _begin(self) -> None:
        self._dictionary = Dictionary()
        self._sides = [_Side(self.query, side, self._dictionary) for side in SIDES]
        self._meeting: Meeting = open_meeting(self._plan, self._device, units=self._units)
        self._told_lost = 0

    def close(self) -> None:
        self._meeting.close()

    @property
    def stored(self) -> tuple[int, int]:
        """Rows of R and of S that are stored."""
        return len(self._sides[0].store), len(self._sides[1].store)

    def newly_lost(self) -> int:
        """Return how many rows the device has lost since this was last asked for."""
        before, self._told_lost = self._told_lost, self._meeting.lost_rows
        return self._told_lost - before

    def load(self, r: pa.RecordBatch, s: pa.RecordBatch) -> None:
        """Store rows whose results are known. Only at the beginning."""
        sides, batches = self._entered(Sent(r), Sent(s))
        if len(sides):
            self._meeting.load(Tuples(sides, *(one.records for one in batches)))

    def join(self, r: Sent, s: Sent) -> Iterator[pa.RecordBatch]:
        """Join a batch with what is stored and with itself; take all results before the next."""
        if self._meeting.emptied:
            self._reload()
        clock = self._clock
        firsts = [side.store.count for side in self._sides]
        sides, batches = self._entered(r, s)
        self._latest = len(sides)
        if not len(sides):
            return
        stores = None
        if not all(batch.stores.all() for batch in batches):
            stores = (batches[0].stores.view(np.uint8), batches[1].stores.view(np.uint8))
        tuples = Tuples(sides, *(one.records for one in batches))
        made = partial(self._rows_of, batches, firsts)
        width = sum(map(_Side.width, self._sides, batches))
        for pairs in chain(
            self._meeting.join(tuples, stores),
            *(self._partners_of_stragglers(late, batches[late], clock) for late in (0, 1)),
        ):
            yield from filter(len, in_batches(pairs, made, width=width))

    def forget(self, watermark: int) -> None:
        """Let go of rows that cannot meet any row whose time is the watermark or later."""
        for side in self._sides:
            side.forget(watermark)
        held = sum(self.stored)
        needed = held - sum(side.needless(watermark) for side in self._sides)
        if held > SPARE + 4 * (needed + self._latest):
            self._renew(watermark)
        oldest = {
            side.side: int(earlier(np.array([self._clock]), side.window.size)[0])
            if side.window.kind == "time"
            else EARLIEST
            for side in self._sides
        }
        firsts = {
            side.side: side.passed - side.window.size if side.window.kind == "rows" else EARLIEST
            for side in self._sides
        }
        self._dictionary.evict(firsts, oldest)

    def _renew(self, watermark: int) -> None:
        """Begin again with what is needed.

        A row whose time is far ahead keeps those that came after it from being let go of, and lets
        the device's clock stand still.
        """
        kept = [side.needed(watermark) for side in self._sides]
        self._meeting.close()
        self._begin()
        self.load(*kept)

    def _entered(self, r: Sent, s: Sent) -> tuple[np.ndarray, list[_Batch]]:
        """Put a batch in order, by time and R before S, and let it enter the stores."""
        batches = []
        clock = self._clock
        for side, sent in zip(self._sides, (r, s), strict=True):
            rows, stores = sent.rows.select(side.columns), sent.stores
            times = side.times(rows)
            order = sorted_places(times)
            if order is not None:
                rows, times = rows.take(integers(order)), times[order]
                stores = None if stores is None else stores[order]
            batches.append(side.enter(rows, times, np.maximum(times, clock), stores))
            if len(times):
                self._clock = max(self._clock, int(times[-1]))
        return merged(*(one.times for one in batches)), batches

    def _partners_of_stragglers(self, number: int, batch: _Batch, clock: int) -> Iterator[Pairs]:
        """Find what the device has let go of and a row that is older than ``clock`` may meet."""
        other = self._sides[1 - number]
        late = batch.times < clock
        if other.window.kind != "time" or not late.any():
            return
        left = int(earlier(np.array([clock]), other.window.size)[0])
        oldest = int(earlier(batch.times[late].min(keepdims=True), other.window.size)[0])
        places = [
            one.first + np.flatnonzero((one.told < left) & (one.own >= oldest))
            for one in other.aged
            if one.told[0] < left and one.high >= oldest
        ]
        found = np.concatenate(places) if places else np.empty(0, np.int64)
        found = found[found >= other.store.first]
        if not len(found):
            return
        apart = replace(
            self._plan, window_r=Window("unbounded"), window_s=Window("unbounded"), timed=False
        )
        records = [other.records_of(found, np.zeros(len(found), np.int64)), batch.records[late]]
        sides = np.repeat(np.array([1 - number, number], np.uint8), [len(one) for one in records])
        r, s = records if number else records[::-1]
        meeting = open_meeting(apart, "cpu", units=1)
        try:
            yield from meeting.join(Tuples(sides, r, s), None)
        finally:
            meeting.close()

    def _rows_of(self, batches: list[_Batch], firsts: list[int], ids: Pairs) -> pa.RecordBatch:
        keep = np.ones(len(ids[0]), bool)
        new = np.zeros(len(ids[0]), bool)
        for side, mine, first in zip(self._sides, ids, firsts, strict=True):
            keep &= side.held(mine)
            back = (mine.astype(np.int64) - first) & (SHOWN - 1)
            new |= (mine >= SHOWN) | (back < side.store.count - first)
        keep &= new  # a device that was loaded again may find known pairs
        ids = (ids[0][keep], ids[1][keep])
        tables, times = [], []
        for side, mine, batch in zip(self._sides, ids, batches, strict=True):
            wanted = [one.column for one in self.query.outputs if one.side == side.side]
            table, when = side.take(mine, list(dict.fromkeys(wanted)), batch)
            tables.append(table)
            times.append(when)
        inside = self._inside(*times)
        if not inside.all():
            tables = [t.filter(pa.array(inside)) if t.num_columns else t for t in tables]
            times = [when[inside] for when in times]
        both = {side: _chunked(table) for side, table in zip(SIDES, tables, strict=True)}
        return result_batch(self.query, self.schema, both, times)

    def _inside(self, r: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Say which pairs are in the window of the earlier row, judged by their own times."""
        inside = np.ones(len(r), bool)
        for side, old, new, first in (
            (self._sides[0], r, s, r <= s),
            (self._sides[1], s, r, s < r),
        ):
            if side.window.kind == "time":
                inside &= ~first | (earlier(new, side.window.size) <= old)
        return inside

    def _reload(self) -> None:
        """Give the device the windows again."""
        records, told = [], []
        for side in self._sides:
            aged = [one for one in side.aged if one.first + len(one.own) > side.store.first]
            when = np.concatenate([one.told for one in aged]) if aged else np.empty(0, np.int64)
            places = np.arange(side.store.count - len(when), side.store.count)
            keep = places >= side.store.first
            told.append(when[keep])
            records.append(side.records_of(places[keep], when[keep]))
        sides = np.repeat(np.array([0, 1], np.uint8), [len(one) for one in told])
        order = np.lexsort((sides, np.concatenate(told)))
        self._meeting.load(Tuples(sides[order], *records))


def _picked(schema: pa.Schema, columns: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in columns])


def _chunked(table: pa.Table) -> pa.Table:
    """Return a table whose columns have a chunk even if it has no rows."""
    if len(table) and all(column.num_chunks for column in table.columns):
        return table
    return pa.Table.from_batches([empty(table.schema)])
