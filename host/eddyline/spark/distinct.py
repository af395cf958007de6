"""Results without those that equal an earlier one: the deduplicator behind the joiner.

Which of equal results comes first is decided by their times, so results wait until the watermark
has passed them. Without watermarks it is the one that is found first.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from eddyline.biclique.distinct import firsts, require_comparable, values
from eddyline.biclique.envelope import pack, unpack, unpack_all
from eddyline.errors import QueryError
from eddyline.plan import Window
from eddyline.query import Query
from eddyline.query.types import raw_array
from eddyline.query.window import WindowSpec, parse_window
from eddyline.spark.chain import Chain
from eddyline.spark.errors import StreamJoinError, in_sparks_style
from eddyline.spark.outgoing import Outgoing
from eddyline.spark.plans import OURS
from eddyline.spark.request import Request
from eddyline.spark.router import column
from eddyline.spark.schemas import arrow_schema, conformed, mapped, require_bytewise
from eddyline.spark.timers import come_back

__all__ = ["deduplicated", "select_with_time", "window_of"]

TIME = "eddyline_time"
BUCKET = "eddyline_bucket"
BUCKETS = 16  # a checkpoint stays good only with as many as it began with
PACKED = "bucket int, late boolean, payload binary"
PACKED_ARROW = pa.schema([("bucket", pa.int32()), ("late", pa.bool_()), ("payload", pa.binary())])


def select_with_time(select: str | None, time: Any) -> str | None:
    """Select the time of results, too, by which it is decided which of equal ones comes first."""
    return f"{select or '*'}, result_time AS {TIME}" if time else select


def window_of(distinct: Any, query: Query) -> Window:
    """Return the window in which results are told apart: by default the longer of the join's.

    Raises
    ------
    QueryError
        If it is no window, or one of rows, or of time where there is none.
    """
    specs = [query.window_r, query.window_s]
    if distinct is not True:
        if not isinstance(distinct, str | WindowSpec):
            raise QueryError(f'distinct={distinct!r} is neither True nor a window: write "time:1m"')
        specs = [parse_window(distinct) if isinstance(distinct, str) else distinct]
    if any(one.kind == "rows" for one in specs):
        raise QueryError(
            "equal results are left out within a window of time, not of rows: say which with "
            'distinct="time:1m"'
        )
    if any(one.kind == "unbounded" for one in specs):
        return Window("unbounded")
    if not query.time:
        raise QueryError(f"distinct={distinct!r} needs a time column: say which with time")
    spans = [query.ticks(one.duration, "distinct") for one in specs if one.duration]
    return Window("time", max(spans))


def deduplicated(results: DataFrame, request: Request) -> DataFrame:
    """Return results of a join without those that are not the first of their kind."""
    schema = arrow_schema(results)
    compared = [one.name for one in request.query.outputs if one.side != "time"]
    with in_sparks_style("DISTINCT"):
        require_comparable(schema, compared)
    require_bytewise(results, compared)
    if (
        results.isStreaming
        and not request.timed
        and len(compared) < len(request.query.outputs) - (TIME in schema.names)
    ):
        raise StreamJoinError(
            "DISTINCT",
            "without watermarks it is not known which of equal results comes first, so they have "
            "no result_time: leave it out of select, or add watermarks",
        )
    untimed = results.isStreaming and not request.timed
    if untimed and request.distinct and request.distinct.kind == "time":
        raise StreamJoinError(
            "DISTINCT",
            "without watermarks it is not known when a window of time is over: add watermarks, or "
            'write distinct="unbounded"',
        )
    rule = _Rule(request, schema, tuple(compared), by_time=not untimed)
    bucket = F.pmod(F.xxhash64(*map(column, compared)), F.lit(BUCKETS))
    packed = mapped(results.withColumn(BUCKET, bucket.cast("int")), rule.packer(), PACKED)
    buckets = packed.groupBy("bucket")
    if not results.isStreaming:
        return buckets.applyInArrow(rule.chooser(), results.schema).drop(TIME)
    mode = "EventTime" if request.timed else "None"
    chosen = buckets.transformWithState(Deduplicator(rule), "payload binary", "append", mode)
    return chosen.alias(OURS).mapInArrow(rule.unpacker(), results.schema).drop(TIME)


class _Rule:
    """What is compared, and how; made in the driver, used in workers."""

    def __init__(
        self, request: Request, schema: pa.Schema, compared: tuple[str, ...], *, by_time: bool
    ):
        assert request.distinct
        # Whether times decide which of equal results is the first. Else it is what came first.
        self.by_time = by_time and TIME in schema.names
        self.request = request
        self.schema = schema
        self.window = request.distinct
        self.compared = list(compared)

    @cached_property
    def told(self) -> pa.Schema:
        """What is kept of results that were handed over."""
        names = [*self.compared, *([TIME] if self.by_time else [])]
        return pa.schema([self.schema.field(name) for name in names])

    def times(self, rows: pa.RecordBatch) -> np.ndarray:
        if not self.by_time:
            return np.zeros(rows.num_rows, np.int64)
        return raw_array(rows[TIME])[0].astype(np.int64)

    def first(self, rows: pa.RecordBatch, before: pa.RecordBatch | None = None) -> pa.RecordBatch:
        """Return the rows that nothing equals, neither among them nor among those before."""
        mine = rows.select(self.told.names)
        both = mine if before is None else pa.concat_batches([before, mine])
        kept = firsts(values(both, self.compared), self.times(both), self.window)
        return rows.filter(pa.array(kept[both.num_rows - rows.num_rows :]))

    def packer(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def pack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                buckets = batch[BUCKET].to_numpy(zero_copy_only=False)
                rows = conformed(batch, self.schema)
                late = np.zeros(len(buckets), bool)
                if self.request.late:
                    late = rows[self.request.late].is_valid().to_numpy(zero_copy_only=False)
                for bucket, is_late in sorted({*zip(buckets.tolist(), late.tolist(), strict=True)}):
                    mine = rows.filter(pa.array((buckets == bucket) & (late == is_late)))
                    yield pa.RecordBatch.from_pydict(
                        {"bucket": [bucket], "late": [is_late], "payload": [pack(mine)]},
                        schema=PACKED_ARROW,
                    )

        return pack_rows

    def chooser(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def choose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            payloads = (one.as_buffer() for batch in batches for one in batch["payload"])
            yield conformed(self.first(unpack_all(payloads, self.schema)), self.schema)

        return choose

    def unpacker(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def unpack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for payload in batch["payload"]:
                    yield from (conformed(one, self.schema) for one in unpack(payload.as_buffer()))

        return unpack_rows


class Deduplicator(StatefulProcessor):
    """Hands results over once the watermark has passed them, unless an equal one was before."""

    def __init__(self, rule: _Rule):
        self._rule = rule

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._meta = handle.getValueState("bucket", "told string, waiting string")
        self._told, self._waiting = (
            Chain(
                handle.getMapState(name, "number long", "payload binary"),
                schema,
                chunk_bytes=self._rule.request.chunk_bytes,
                window=window,
            )
            for name, schema, window in (
                ("told", self._rule.told, self._rule.window),
                ("waiting", self._rule.schema, None),
            )
        )
        self._expired = Outgoing()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        self._open()
        out = Outgoing()
        payloads = []
        for row in rows:
            if row.late:
                yield Row(payload=out.passed(bytes(row.payload)))
            else:
                payloads.append(bytes(row.payload))
        new = unpack_all(payloads, self._rule.schema)
        self._waiting.add(new, self._rule.times(new))
        yield from self._go_on(timerValues, out)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        self._open()
        yield from self._go_on(timerValues, self._expired)

    def close(self) -> None:
        pass

    def _open(self) -> None:
        state = self._meta.get()
        for chain, directory in zip((self._told, self._waiting), state or (None,) * 2, strict=True):
            chain.open(directory)

    def _go_on(self, timers: Any, out: Outgoing) -> Iterator[Row]:
        rule, tick = self._rule, self._rule.request.query.tick
        rows = self._waiting.read()
        times = rule.times(rows)
        ready, watermark = np.ones(len(times), bool), 0
        if rule.request.timed:
            watermark = timers.getCurrentWatermarkInMs() * 10**6 // tick
            ready = times <= watermark
        first = rule.first(rows.filter(pa.array(ready)), self._told.read())
        if first.num_rows:
            yield Row(payload=out.passed(pack(first)))
        self._waiting.clear()
        self._waiting.add(rows.filter(pa.array(~ready)), times[~ready])
        self._told.add(first.select(rule.told.names), rule.times(first))
        self._told.drop(rule.window, watermark)
        self._meta.update((self._told.directory, self._waiting.directory))
        if rule.request.timed:
            come_back(self._handle, [self._waiting.oldest, self._told.expiry(rule.window)], tick)
