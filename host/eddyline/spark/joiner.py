"""The stateful half of a join: units, their stored rows in Spark's state, results in envelopes."""

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from eddyline.biclique.envelope import opened, pack
from eddyline.biclique.register import Register
from eddyline.biclique.routing import require_known
from eddyline.biclique.unit import Sent
from eddyline.clock import EARLIEST
from eddyline.errors import DeviceError
from eddyline.plan import Window
from eddyline.rowstore import concatenated
from eddyline.spark import cache
from eddyline.spark.chain import Chain
from eddyline.spark.leases import HeldUnit
from eddyline.spark.outgoing import Outgoing
from eddyline.spark.parquet import read_rows
from eddyline.spark.request import Request
from eddyline.spark.router import SPREAD, columns_sent
from eddyline.spark.timers import come_back
from eddyline.times import has_time, times_of

__all__ = ["JOINED", "Joiner"]

JOINED = "payload binary, late string"  # results, or late rows of a side
SIDES = ("r", "s")


class Joiner(StatefulProcessor):
    """Joins what is shown to a unit with what it stores, and stores its share."""

    def __init__(self, request: Request):
        self._request = request

    def init(self, handle: StatefulProcessorHandle) -> None:
        request = self._request
        self._handle = handle
        self._meta = handle.getValueState(
            "unit",
            "mark string, r string, s string, r_waiting string, s_waiting string, late long, "
            "routings string",
        )
        self._windows = {side: request.query.plan.window(side) for side in SIDES}
        self._schemas = {side: columns_sent(request, side) for side in SIDES}
        self._stored = self._chains(handle, "stored", self._windows)
        self._waiting = self._chains(handle, "waiting", {})
        self._expired = Outgoing()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        self._out = Outgoing()
        watermark = self._watermark(timerValues)
        late = self._open(watermark)
        arrived, too_late = self._arrived(int(key[0]), rows, watermark)
        late += sum(one.num_rows for one in too_late.values())
        if self._request.late:
            for side, one in too_late.items():
                yield self._row(pack(one), side)
        if self._request.sequenced:
            for side in SIDES:
                rows_, times = arrived[side].rows, self._times(side, arrived[side].rows)
                self._waiting[side].add(rows_, times)
            arrived = self._released(watermark)
        yield from self._join(key, arrived, watermark, late)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Go on without new rows: with what waited for the watermark, or without what it passed."""
        self._out = self._expired
        watermark = self._watermark(timerValues)
        late = self._open(watermark)
        if self._request.sequenced:
            yield from self._join(key, self._released(watermark), watermark, late)
            return
        # A unit in memory will forget these rows by itself, so its mark stays good.
        self._write(self._mark, late)
        yield from self._told(key)

    def close(self) -> None:
        pass

    def _chains(
        self, handle: StatefulProcessorHandle, name: str, windows: dict[str, Window]
    ) -> dict[str, Chain]:
        return {
            side: Chain(
                handle.getMapState(f"{name}_{side}", "number long", "payload binary"),
                self._schemas[side],
                chunk_bytes=self._request.chunk_bytes,
                name=f"stream {side}",
                label=self._request.routing.label,
                window=windows.get(side),
            )
            for side in SIDES
        }

    def _open(self, watermark: int) -> int:
        """Look at the state of the unit at hand; return how many rows came too late so far."""
        request = self._request
        state = self._meta.get()
        self._mark = state[0] if state else None
        chains = [*self._stored.values(), *self._waiting.values()]
        for chain, directory in zip(chains, state[1:5] if state else [None] * 4, strict=True):
            chain.open(directory)
        if not request.sequenced:
            self._drop(watermark)
        self._register = Register(state[6] if state else None)
        self._register.forget(watermark)
        labels = self._register.labels.union(*(one.labels for one in self._stored.values()))
        require_known(request.query, request.routing, labels)
        return state[5] if state else 0

    def _arrived(
        self, unit: int, rows: Iterable[Any], watermark: int
    ) -> tuple[dict[str, Sent], dict[str, pa.RecordBatch]]:
        """Return what was sent, without what came too late, and what of our own did."""
        payloads: dict[tuple[str, bool], list[bytes]] = {
            (side, stores): [] for side in SIDES for stores in (True, False)
        }
        files: dict[str, list[str]] = {side: [] for side in SIDES}
        for row in rows:
            if row.latest is not None:
                label = self._request.routing.label
                self._register.note(label, row.latest, self._windows[row.side])
            elif row.file is None:
                payloads[row.side, row.stores].append(bytes(row.payload))
            else:
                files[row.side].append(row.file)
        arrived, late = {}, {}
        for side in SIDES:
            sent, stores = opened(payloads, side, self._schemas[side])
            if files[side]:
                read = [one for name in files[side] for one in read_rows(name, sent.schema)]
                sent = concatenated([sent, *read] if sent.num_rows else read)
                stores = np.ones(sent.num_rows, bool)
            fresh = self._in_time(side, sent, watermark)
            if not fresh.all():
                own = stores & ~fresh
                if own.any() and self._request.routing.first(side, unit):
                    late[side] = sent.filter(pa.array(own))
                    cache.counts[self._request.token]["late_rows"] += late[side].num_rows
                sent, stores = sent.filter(pa.array(fresh)), stores[fresh]
            arrived[side] = Sent(sent, stores if self._request.routing.shares > 1 else None)
        return arrived, late

    def _in_time(self, side: str, rows: pa.RecordBatch, watermark: int) -> np.ndarray:
        """Say which rows are not late. As Spark has it, those at the watermark and NULLs are."""
        fresh = has_time(self._request.query, side, rows)
        if self._request.timed:
            known = rows if fresh.all() else rows.filter(pa.array(fresh))
            fresh[fresh] = self._times(side, known) > watermark
        return fresh

    def _released(self, watermark: int) -> dict[str, Sent]:
        """Return the waiting rows that nothing can come before any more, in their order."""
        released = {}
        for side in SIDES:
            chain = self._waiting[side]
            rows = chain.read()
            times = self._times(side, rows)
            order = np.lexsort((rows[SPREAD].to_numpy(zero_copy_only=False), times))
            ready = times <= watermark
            chain.clear()
            chain.add(rows.filter(pa.array(~ready)), times[~ready])
            released[side] = Sent(rows.take(pa.array(order[ready[order]])))
        return released

    def _join(self, key: Any, arrived: dict[str, Sent], watermark: int, late: int) -> Iterator[Row]:
        request = self._request
        place = (request.token, int(key[0]))
        context = TaskContext.get()
        if context and context.attemptNumber():
            cache.counts[request.token]["retry"] += 1
        unit, results = self._met(place, arrived)
        for batch in results:
            yield self._row(pack(batch))
        if lost := unit.newly_lost():
            cache.counts[request.token]["lost_rows"] += lost
        for side in SIDES:
            sent = arrived[side]
            own = sent.rows if sent.stores is None else sent.rows.filter(pa.array(sent.stores))
            self._stored[side].add(own, self._times(side, own))
        if request.sequenced:
            # Only now: rows that have waited until the watermark had passed them met older ones.
            self._drop(watermark)
        unit.forget(watermark)
        mark = uuid.uuid4().hex
        self._write(mark, late)
        if unit.lasting:
            cache.give_back(place, mark, unit, most=request.cached_units)
        else:
            unit.close()
        if request.metrics:
            cache.report(request.metrics, request.token)
        yield from self._told(key)

    def _told(self, key: Any) -> Iterator[Row]:
        """Say how much the unit stores, to whoever watches."""
        if self._request.watched:
            stored = sum(chain.size for chain in self._stored.values())
            yield Row(payload=None, late=None, unit=int(key[0]), stored=stored)

    def _row(self, payload: bytes, late: str | None = None) -> Row:
        payload = self._out.passed(payload)
        if self._request.watched:
            return Row(payload=payload, late=late, unit=None, stored=None)
        return Row(payload=payload, late=late)

    def _met(
        self, place: tuple[str, int], arrived: dict[str, Sent]
    ) -> tuple[HeldUnit, Iterable[pa.RecordBatch]]:
        """Let rows meet in the unit, or in one on another device if its own fails."""
        request = self._request
        unit = None
        try:
            unit = cache.take(place, self._mark) or self._loaded()
            results = unit.join(arrived["r"], arrived["s"])
            # What is handed over cannot be taken back, so all of it is awaited first.
            return unit, list(results) if request.failover else results
        except DeviceError:
            if unit:
                unit.close()
            if not request.failover:
                raise  # Spark tries the task again
        cache.counts[request.token]["failover"] += 1
        unit = self._loaded(request.failover)
        return unit, unit.join(arrived["r"], arrived["s"])

    def _loaded(self, device: str | None = None) -> HeldUnit:
        """Return a unit with the rows that the state holds."""
        unit = self._request.unit(device)
        unit.load(*(self._stored[side].read() for side in SIDES))
        return unit

    def _drop(self, watermark: int) -> None:
        for side, chain in self._stored.items():
            chain.drop(self._windows[side], watermark)

    def _write(self, mark: str | None, late: int) -> None:
        chains = [*self._stored.values(), *self._waiting.values()]
        directories = (chain.directory for chain in chains)
        self._meta.update((mark, *directories, late, self._register.text))
        self._set_timer()

    def _set_timer(self) -> None:
        """Come back when the watermark lets rows go on, or lets a chunk go."""
        if not self._request.timed:
            return
        due = [chain.oldest for chain in self._waiting.values()]
        due += [self._stored[side].expiry(self._windows[side]) for side in SIDES]
        come_back(self._handle, due, self._request.query.tick)

    def _watermark(self, timers: Any) -> int:
        """Return the watermark in ticks of the join's clock."""
        if not self._request.timed:
            return EARLIEST
        return timers.getCurrentWatermarkInMs() * 10**6 // self._request.query.tick

    def _times(self, side: str, rows: pa.RecordBatch) -> np.ndarray:
        query = self._request.query
        if not query.time:
            return np.zeros(rows.num_rows, np.int64)
        return times_of(query, side, rows, lambda row: f"stream {side}, row {row} of a batch")
