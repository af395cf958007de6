"""What is asked of a join, checked while the query is built."""

import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampNTZType, TimestampType

from eddyline.api import make_query
from eddyline.biclique.routing import Routing, equalities, make_routing
from eddyline.errors import DeviceAbsent
from eddyline.plan import Window
from eddyline.query import Query
from eddyline.query.parse import matching
from eddyline.query.predicate import columns_of
from eddyline.query.window import Duration
from eddyline.results import require_carried
from eddyline.spark import settings
from eddyline.spark.errors import StreamJoinError, in_sparks_style
from eddyline.spark.leases import FPGA, HeldUnit
from eddyline.spark.plans import may_wait, waits
from eddyline.spark.schemas import PASSED, arrow_schema, quoted, require_bytewise, watermark_of

__all__ = ["Request", "make_request"]

THETA_UNITS = 1
EQUALITY_UNITS = 4

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """A join as workers are told of it. ``token`` tells it from every other one."""

    query: Query
    routing: Routing
    device: str
    failover: str  # device that takes over when that one fails, or nothing
    chunk_bytes: int
    cached_units: int
    metrics: str  # folder for counts of every worker process, or nothing
    delay: int | None  # milliseconds that both watermarks are behind at most
    late: str | None = None  # column that marks late rows among the results
    distinct: Window | None = None  # in which no two results are equal
    watched: bool = False  # whether units tell how much they store
    static: bool = False  # whether one side is a table, and the other only passes
    streams: bool = False  # whether both sides are streams
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def timed(self) -> bool:
        """Whether both inputs have a watermark."""
        return self.delay is not None

    @property
    def sequenced(self) -> bool:
        """Whether rows wait until the watermark has decided their order."""
        return any(w.kind == "rows" for w in (self.query.window_r, self.query.window_s))

    @property
    def waits(self) -> bool:
        """Whether results come when the watermark has passed them."""
        return self.sequenced or self.distinct is not None

    def unit(self, device: str | None = None) -> HeldUnit:
        shares = 2 if self.static else self.routing.shares
        return HeldUnit(self.query, device or self.device, units=shares)


def make_request(
    spark: SparkSession,
    r: DataFrame,
    s: DataFrame,
    on: str,
    *,
    window: Any,
    time: str | tuple[str, str] | None,
    order: str,
    select: str | None,
    device: str | None,
    units: int | tuple[int, int] | None,
    subgroups: int | None,
    draining: Iterable[int | tuple[int, int]] = (),
    late: str | None = None,
) -> Request:
    streaming = r.isStreaming and s.isStreaming
    if not isinstance(device, str | None):
        raise StreamJoinError("DEVICE", f'device={device!r} is no name: write device="cpu", say')
    with in_sparks_style("QUERY"):
        query = make_query(
            arrow_schema(r), arrow_schema(s), on, window=window, time=time,
            order=order, select=select, any_case=not settings.cased(spark),
        )  # fmt: skip
        require_carried(query)
    for side, frame in (("r", r), ("s", s)):
        require_bytewise(frame, sorted(columns_of(query.predicate, side)), f"{side}.")
    if query.order.kind != "none":
        raise StreamJoinError(
            "ORDER",
            f"order={order!r} cannot be given: rows of a DataFrame have no order. "
            "Sort the result, by result_time for instance.",
        )
    equal = bool(equalities(query.plan.predicate))
    default = EQUALITY_UNITS if equal else THETA_UNITS
    counted = any(w.kind == "rows" for w in (query.window_r, query.window_s))
    with in_sparks_style("UNITS"):
        number: int | tuple[int, int] | None = units
        if number is None:
            number = settings.number(spark, "units", 1 if counted else default)
        routing = make_routing(query, number, subgroups, draining)
    if counted and not query.time:
        raise StreamJoinError(
            "NO_TIME",
            "windows of rows need a time column, which decides the order of the rows: say which "
            'with time="…"',
        )
    if streaming:
        _require_watermarks(query, r, s)
    request = Request(
        query,
        routing,
        device or settings.text(spark, "device", "auto"),
        settings.text(spark, "failover", ""),
        settings.number(spark, "chunkBytes", 1 << 20),
        settings.number(spark, "cachedUnits", 64),
        settings.text(spark, "metrics", ""),
        delay=_delay(query, r, s) if streaming else None,
        late=late,
        static=r.isStreaming != s.isStreaming,
        streams=streaming,
    )
    _ask_device(request, request.device)
    _ask_device(request, request.failover)
    return request


def _ask_device(request: Request, device: str) -> None:
    """Let a device refuse the plan now, if it is here. One that tasks lease may be in use."""
    if device in ("", FPGA):
        return
    with in_sparks_style("DEVICE"):
        try:
            request.unit(device).close()
        except DeviceAbsent as error:
            log.warning("tasks will find out whether %s does the plan, for here %s", device, error)


def with_lateness(
    frame: DataFrame, time: str | tuple[str, str] | None, side: str, lateness: Any
) -> DataFrame:
    """Give a stream the watermark that ``lateness`` asks for."""
    if lateness is None:
        return frame
    with in_sparks_style("LATENESS"):
        allowed = Duration.of(lateness, "lateness")
    if time is None or not frame.isStreaming:
        return frame
    name = time[side == "s"] if isinstance(time, tuple | list) and len(time) == 2 else time
    found = matching(frame.columns, name) if isinstance(name, str) else []
    column = found[0] if len(found) == 1 else ""
    if column and watermark_of(frame, column) is None:
        if allowed.ticks:
            raise StreamJoinError(
                "LATENESS", f"lateness {lateness!r} has no unit: write {allowed.amount}s, say"
            )
        return frame.withWatermark(quoted(column), f"{allowed.amount // 1000} microseconds")
    return frame


def _delay(query: Query, r: DataFrame, s: DataFrame) -> int | None:
    if not query.time:
        return None
    delays = [watermark_of(frame, name) for frame, name in zip((r, s), query.time, strict=True)]
    known = [one for one in delays if one is not None]
    return max(known) if len(known) == 2 else None


def _require_watermarks(query: Query, r: DataFrame, s: DataFrame) -> None:
    kinds = {query.window_r.kind, query.window_s.kind}
    if kinds == {"unbounded"}:
        if _delay(query, r, s) is not None:
            _require_pending(query, r, s)
        return
    assert query.time
    for side, frame, column in zip("rs", (r, s), query.time, strict=True):
        if not isinstance(frame.schema[column].dataType, TimestampType | TimestampNTZType):
            raise StreamJoinError(
                "TIME_TYPE",
                f"time column {side}.{column} is {frame.schema[column].dataType.simpleString()}, "
                "and Spark has watermarks for timestamps only: cast it, with "
                f"timestamp_millis({column}) for instance",
            )
        if watermark_of(frame, column) is None:
            raise StreamJoinError(
                "NO_WATERMARK",
                f"stream {side} has no watermark on {column!r}, so its rows could never be "
                f'forgotten: add .withWatermark("{column}", "10 seconds") to it, or lateness="10s" '
                "to the join",
            )
    _require_pending(query, r, s)


def _require_pending(query: Query, r: DataFrame, s: DataFrame) -> None:
    """Refuse a stream whose rows come when its own watermark has passed them."""
    assert query.time
    for side, frame, column in zip("rs", (r, s), query.time, strict=True):
        if frame.schema[column].metadata.get(PASSED):
            raise StreamJoinError(
                "LATE_RESULTS",
                f"stream {side} is a join with windows of rows, or with distinct: its results come "
                "when the watermark has passed them, so all of them would be late here. Let that "
                "join be the last one",
            )
        if waits(frame):
            raise StreamJoinError(
                "LATE_RESULTS",
                f"stream {side} is an aggregation, or an outer join of streams: Spark has its rows "
                "when the watermark has passed them, so they would be late here. Join first, or "
                "write them to files and read those as a stream",
            )
        if operator := may_wait(frame):
            log.warning(
                "stream %s comes from %s: rows that it keeps until the watermark has passed their "
                "%r would be late here, and meet nothing. Let it give them out before, or give "
                'late="late" to see whether there are any',
                side, operator, column,
            )  # fmt: skip
