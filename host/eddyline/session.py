"""One join from sources to result batches: gate, encoder, device, materializer."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.clock import EARLIEST, LATEST
from eddyline.device import Device, Results, TakesLate, Tuples, joined
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.errors import DataError, OutOfOrder
from eddyline.gate import ENDED, Chunk, Stream, TimeGate, TurnGate
from eddyline.io.source import Heartbeat, Source
from eddyline.query import Query
from eddyline.results import (
    RESULT_ROWS,
    Pairs,
    in_batches,
    needed_columns,
    require_carried,
    result_batch,
    result_schema,
)
from eddyline.rowstore import RowStore, StreamRows, concatenated, empty, integers
from eddyline.times import times_of

__all__ = ["Session", "Totals"]

logger = logging.getLogger(__name__)

LateRows = Callable[[str, pa.RecordBatch], None]
# Rows given to a device at a time, and what is read of a stream at a time so that both sides make
# such a batch.
BATCH = 1 << 16
READ_ROWS = BATCH // 2


@dataclass
class Totals:
    """What has gone through a session so far: rows read, rows joined, and what came of them."""

    r_rows: int = 0
    s_rows: int = 0
    joined_rows: int = 0
    pairs: int = 0
    late_rows: int = 0


@dataclass
class _Sent:
    """Where both windows begin for what follows the first ``arrivals`` arrivals."""

    arrivals: int
    first: dict[str, int]


@dataclass
class Session:
    """A running join. Iterate over it for result batches; it reads its sources as needed.

    Parameters
    ----------
    query : Query
        What to join.
    r, s : sequence of Source
        Physical streams of each side.
    device : Device
        Entered; configured by the session.
    batch : int
        Most rows given to the device at a time.
    on_late : function of side and batch, optional
        Takes the rows that came too late.
    """

    query: Query
    r: Sequence[Source]
    s: Sequence[Source]
    device: Device
    batch: int = BATCH
    on_late: LateRows | None = None
    totals: Totals = field(default_factory=Totals)

    def __post_init__(self) -> None:
        self._sources = {
            Stream(side, number): source
            for side, sources in (("r", self.r), ("s", self.s))
            for number, source in enumerate(sources)
        }
        self._rows = {stream: StreamRows() for stream in self._sources}
        self._columns = {side: needed_columns(self.query, side) for side in "rs"}
        dictionary = Dictionary()
        self._dictionary = dictionary
        self._encoders = {
            side: SideEncoder(self.query.lowering.side(side), dictionary, side=side)
            for side in "rs"
        }
        self._stores = {
            side: RowStore(self.query.schema(side), id_bits=self.query.id_bits) for side in "rs"
        }
        require_carried(self.query)
        self._sent: deque[_Sent] = deque()
        self._arrivals = 0
        # Of each side, the earliest time that may follow what has been pushed.
        self._next = {"r": EARLIEST, "s": EARLIEST}
        # A device that drops tuples holds older ones than the windows say.
        self._lossy = getattr(self.device, "lossy", False)
        self.schema = result_schema(self.query)
        self._timed = any(output.side == "time" for output in self.query.outputs)
        self.device.configure(self.query.plan)
        lateness = self.query.lateness
        allowed = None if lateness is None else self.query.ticks(lateness, "lateness")
        self._late = self._takes_late()
        self._time_gate = (
            TimeGate(self._sources, lateness=allowed, sorts=not self._late)
            if self.query.time
            else None
        )
        self._turn_gate = None if self._time_gate else TurnGate(self._sources)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks():
            begin = 0
            follows = self._follows(chunk)
            while begin < len(chunk):
                part = slice(begin, min(len(chunk), begin + min(self.batch, self._free_ids())))
                begin = part.stop
                following = {side: int(times[begin]) for side, times in follows.items()}
                self._push(chunk, part, following)
                for results in self._pulled():
                    yield from self._materialized(results)
        yield from self._materialized(self.device.flush())

    def _pulled(self) -> Iterator[Results]:
        """Pull what is ready, in parts large enough to be worth materializing."""
        parts: list[Results] = []
        while not (results := self.device.pull()).nothing:
            parts.append(results)
            self.totals.joined_rows = results.closed
            if sum(map(len, parts)) >= RESULT_ROWS:
                yield joined(parts, results.closed)
                parts = []
        if parts:
            yield joined(parts, parts[-1].closed)

    def _chunks(self) -> Iterator[Chunk]:
        """Read whichever stream holds the others up, and pass on what that makes ready."""
        gate = self._time_gate or self._turn_gate
        assert gate
        readers = {stream: _pieces(source) for stream, source in self._sources.items()}
        while (stream := gate.lagging) is not None:
            batch = next(readers[stream], None)
            if batch is None:
                self._end(stream)
            elif isinstance(batch, Heartbeat):
                self._beat(stream, batch)
            else:
                self._add(stream, batch)
            chunk = gate.take()
            if len(chunk):
                yield chunk

    def _takes_late(self) -> TakesLate | None:
        """Return the device if it takes rows as they come, though their times may fall.

        Then those that are on time need not wait until nothing earlier can come.
        """
        device = self.device
        if self.query.lateness is None or not isinstance(device, TakesLate):
            return None
        return device if device.accept_late() else None

    def _follows(self, chunk: Chunk) -> dict[str, np.ndarray]:
        """Return, by place in a chunk, the earliest time of each side from there on."""
        if not self._late:  # an arrival's own: none is earlier than the one before it
            times = np.concatenate([chunk.times[:1], chunk.times])
            return {"r": times, "s": times}
        assert self._time_gate
        sides = chunk.sides[chunk.origins]
        follows = {}
        for side, watermark in self._time_gate.watermarks().items():
            mine = sides == (side == "s")
            times = np.append(np.where(mine, chunk.times, LATEST), watermark)
            follows[side] = np.minimum.accumulate(times[::-1])[::-1]
        return follows

    def _end(self, stream: Stream) -> None:
        if self._time_gate:
            self._time_gate.heartbeat(stream, ENDED)
        else:
            assert self._turn_gate
            self._turn_gate.end(stream)

    def _beat(self, stream: Stream, heartbeat: Heartbeat) -> None:
        if self._time_gate:  # without a time column, an idle stream is simply waited for
            unit = self.query.time_type(stream.side).unit
            self._time_gate.heartbeat(stream, int(heartbeat.time * unit / (self.query.tick or 1)))

    def _add(self, stream: Stream, batch: pa.RecordBatch) -> None:
        batch = _conformed(batch, self.query.schema(stream.side))
        first = self._rows[stream].count
        self._rows[stream].add(batch)
        if stream.side == "r":
            self.totals.r_rows += batch.num_rows
        else:
            self.totals.s_rows += batch.num_rows
        if self._turn_gate:
            self._turn_gate.add(stream, batch.num_rows)
            return
        assert self._time_gate
        try:
            late = self._time_gate.add(stream, self._times(stream, batch, first))
        except OutOfOrder as error:
            raise DataError(self._out_of_order(stream, batch, first, error)) from None
        if len(late):
            self.totals.late_rows += len(late)
            for part in self._rows[stream].take(late, batch.schema.names):
                if self.on_late:
                    self.on_late(stream.side, part)

    def _times(self, stream: Stream, batch: pa.RecordBatch, first: int) -> np.ndarray:
        place = self._sources[stream].place
        return times_of(self.query, stream.side, batch, lambda row: place(first + row))

    def _out_of_order(
        self, stream: Stream, batch: pa.RecordBatch, first: int, error: OutOfOrder
    ) -> str:
        assert self.query.time
        name = self.query.time[stream.side == "s"]
        value = batch[name].cast(pa.string())[error.row - first].as_py()
        return (
            f"{self._sources[stream].place(error.row)}, column {name!r}: time {value} runs "
            "backwards; sort the stream or allow it with lateness"
        )

    def _push(self, chunk: Chunk, part: slice, following: dict[str, int]) -> None:
        origins, rows, times = chunk.origins[part], chunk.rows[part], chunk.times[part]
        sides = chunk.sides[origins]
        if not self._lossy:
            self._dictionary.evict(self._window_firsts(), self._window_times())
        records = {}
        for number, side in enumerate("rs"):
            mine = np.flatnonzero(sides == number)
            batch = self._gather(side, chunk, origins[mine], rows[mine])
            store = self._stores[side]
            when = times[mine]
            records[side] = self._encoders[side].encode(batch, first=store.count, times=when)
            records[side]["id"] &= (1 << self.query.id_bits) - 1
            store.append(batch, when)
        self.device.push(Tuples(sides, records["r"], records["s"]))
        self._arrivals += len(sides)
        self._next = following
        if self._late:
            self._late.watermark(following["r"], following["s"])
        self._sent.append(_Sent(self._arrivals, self._window_firsts()))

    def _gather(
        self, side: str, chunk: Chunk, origins: np.ndarray, rows: np.ndarray
    ) -> pa.RecordBatch:
        """Return the rows of one side in order of arrival."""
        if not len(rows):
            return empty(self.query.schema(side)).select(self._columns[side])
        parts: list[pa.RecordBatch] = []
        places: list[np.ndarray] = []
        for index, stream in enumerate(chunk.streams):
            if stream.side == side and len(mine := np.flatnonzero(origins == index)):
                parts += self._rows[stream].take(rows[mine], self._columns[side])
                places.append(mine)
        whole = concatenated(parts)
        if len(places) == 1:
            return whole
        order = np.empty(len(rows), np.int64)
        order[np.concatenate(places)] = np.arange(len(rows))
        return whole.take(integers(order))

    def _window_firsts(self) -> dict[str, int]:
        """Return where each window begins for the next arrival, as far as is known now."""
        firsts = {}
        for side, store in self._stores.items():
            window = self.query.plan.window(side)
            if window.kind == "rows":
                firsts[side] = max(0, store.count - window.size)
            elif window.kind == "time":
                firsts[side] = store.first_at(self._window_times()[side])
            else:
                firsts[side] = 0
        return firsts

    def _window_times(self) -> dict[str, int]:
        return {
            side: max(EARLIEST, self._next[other] - window.size)
            if window.kind == "time"
            else EARLIEST
            for side, other in ("rs", "sr")
            for window in [self.query.plan.window(side)]
        }

    def _free_ids(self) -> int:
        """Return how many more rows can be told apart from those that are still held."""
        held = sum(len(store) for store in self._stores.values())
        free = (1 << self.query.id_bits) - 1 - held
        if free < 1:
            raise DataError(
                f"the windows hold {held} rows, all that ids of {self.query.id_bits} bits can "
                "name: use smaller windows"
            )
        # A device may close arrivals only when later ones come: leave ids for those.
        return max(1, free // 2)

    def _materialized(self, results: Results) -> Iterator[pa.RecordBatch]:
        width = sum(store.bytes_per_row for store in self._stores.values())
        pairs = (results.r_id, results.s_id)
        for batch in in_batches(pairs, self._one_batch, width=width):
            self.totals.pairs += batch.num_rows
            yield batch
        # A result in flight may still name rows that have left their window since.
        while self._sent and self._sent[0].arrivals <= results.closed:
            for side, first in self._sent.popleft().first.items():
                self._stores[side].drop_below(first)

    def _one_batch(self, pairs: Pairs) -> pa.RecordBatch:
        tables, times = {}, []
        for side, ids in zip("rs", pairs, strict=True):
            wanted = [one.column for one in self.query.outputs if one.side == side]
            store = self._stores[side]
            tables[side] = store.take(ids, list(dict.fromkeys(wanted)))
            if self._timed:
                times.append(store.times(ids))
        return result_batch(self.query, self.schema, tables, times)


def _pieces(source: Source) -> Iterator[pa.RecordBatch | Heartbeat]:
    """Read a stream in pieces that stay in the cache on their way, however large its batches."""
    for batch in source:
        if isinstance(batch, Heartbeat):
            yield batch
            continue
        for begin in range(0, max(1, batch.num_rows), READ_ROWS):
            yield batch.slice(begin, READ_ROWS)


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring the columns of a further physical stream into the order of the first one."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([batch[name] for name in schema.names], schema=schema)
