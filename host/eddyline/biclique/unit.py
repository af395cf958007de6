"""One unit: the rows it stores, and the batches that meet them.

Rows come in batches, and a batch may be older than the one before it. A pair of rows counts iff
the earlier one (by time, R before S) is in its window when the later one comes, which times alone
decide; so the order of arrival does not matter as long as every pair meets once.

A device wants times that never run backwards. It is given the largest time so far instead of the
time of a row that comes after later ones (a straggler). So it keeps rows too long, never too
short; what it finds is filtered by the real times. Only a straggler's own partners may have left
the device, and are looked up among the stored rows apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from eddyline.biclique.meeting import Meeting, Pairs, open_meeting
from eddyline.biclique.order import merged, sorted_places
from eddyline.biclique.side import SHOWN, Batch, Side
from eddyline.clock import EARLIEST, earlier
from eddyline.device import Tuples
from eddyline.dictionary import Dictionary
from eddyline.plan import Window
from eddyline.query import Query
from eddyline.results import in_batches, result_batch, result_schema
from eddyline.rowstore import empty, integers

__all__ = ["Sent", "Unit"]

# A unit that holds so many rows beyond four times what it needs is made anew.
SPARE = 1 << 12
SIDES = ("r", "s")


@dataclass(frozen=True)
class Sent:
    """Rows of one side that are shown to a unit; it stores those that ``stores`` says, or all."""

    rows: pa.RecordBatch
    stores: np.ndarray | None = None


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
        self._sides = [Side(self.query, side, self._dictionary) for side in SIDES]
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
        width = sum(map(Side.width, self._sides, batches))
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

    def _entered(self, r: Sent, s: Sent) -> tuple[np.ndarray, list[Batch]]:
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

    def _partners_of_stragglers(self, number: int, batch: Batch, clock: int) -> Iterator[Pairs]:
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

    def _rows_of(self, batches: list[Batch], firsts: list[int], ids: Pairs) -> pa.RecordBatch:
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


def _chunked(table: pa.Table) -> pa.Table:
    """Return a table whose columns have a chunk even if it has no rows."""
    if len(table) and all(column.num_chunks for column in table.columns):
        return table
    return pa.Table.from_batches([empty(table.schema)])
