"""``stream_join``: two DataFrames in, one out."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from eddyline.biclique.envelope import unpack
from eddyline.results import result_schema
from eddyline.spark.batch import joined_batch
from eddyline.spark.distinct import deduplicated, select_with_time, window_of
from eddyline.spark.errors import StreamJoinError, in_sparks_style
from eddyline.spark.joiner import JOINED, Joiner
from eddyline.spark.late import late_results, marked, require_lateness, with_mark, without_late
from eddyline.spark.plans import OURS
from eddyline.spark.request import Request, make_request, with_lateness
from eddyline.spark.router import routed_stream
from eddyline.spark.scaling import WATCHED, Scaling, require_scalable, watched
from eddyline.spark.schemas import PASSED, WATERMARK, conformed, output_schema
from eddyline.spark.session import keep_state_in_rocksdb
from eddyline.spark.static import joined_static, require_timeless

__all__ = ["join_with", "stream_join"]


def stream_join(
    r: DataFrame,
    s: DataFrame,
    /,
    on: str,
    *,
    window: Any = None,
    time: str | tuple[str, str] | None = None,
    lateness: Any = None,
    order: str = "none",
    select: str | None = None,
    device: str | None = None,
    units: int | tuple[int, int] | Scaling | None = None,
    subgroups: int | None = None,
    draining: Iterable[int | tuple[int, int]] = (),
    late: str | None = None,
    distinct: Any = None,
) -> DataFrame:
    """Join two streams, two tables, or a stream with a table, over sliding windows.

    Parameters
    ----------
    r, s : DataFrame
        The two sides. Two streams have a watermark each, unless both windows are unbounded.
    on : str
        SQL condition over ``r`` and ``s``, such as ``abs(r.x - s.a) <= 10``. No equality needed.
    window : window, or a pair of them
        ``"time:10s"``, ``"rows:1000"`` or ``"unbounded"``, or what :func:`eddyline.time` and its
        like return. A pair is the window of ``r`` and that of ``s``. By default tables have
        unbounded ones; two streams have no default. A stream and a table have no window.
    time : str, or a pair of them
        Time column.
    lateness : duration, optional
        Watermark for streams that have none, such as ``"10s"``.
    order : str
        Only ``none``: rows of a DataFrame have no order.
    select : str, optional
        Result columns, such as ``"r.*, s.a, result_time"``; by default those of ``r``, then those
        of ``s``. A name that both sides have becomes ``r_name`` and ``s_name``.
    device : str, optional
        Where units join; by default ``spark.eddyline.device``, or ``auto``.
    units : int, optional
        Parts that the stored rows are cut into, by default ``spark.eddyline.units``, or 4 if the
        predicate has an equality and 1 if not. A pair, rows and columns, joins by the join-matrix
        instead of the biclique: a row is then stored several times. A :class:`Scaling` follows
        the load from run to run.
    subgroups : int, optional
        Groups of units; a row is shown to all units of its group. By default as many as units if
        the predicate has an equality, else 1.
    draining : numbers of units, or pairs of units and subgroups
        What earlier runs from the same checkpoint had, for as long as their rows may be matched.
        Their units store nothing new, and no state moves.
    late : str, optional
        Column that marks late rows, which are then among the results: ``"r"`` or ``"s"``, with NULL
        in the columns of the other side. Pairs have NULL there.
    distinct : True or a window of time, optional
        Leave out a result if an equal one was handed over at most so long before it, by
        ``result_time``, which itself is not compared. True is the longer window of the join.

    Returns
    -------
    DataFrame
        Streaming if a side is. ``result_time`` has the watermark of the inputs, so that windows of
        time, aggregations and other joins may follow.

    Raises
    ------
    StreamJoinError
        An ``AnalysisException``, if the join cannot be done as written.
    """
    for side, frame in (("r", r), ("s", s)):
        if not hasattr(frame, "mapInArrow"):
            raise StreamJoinError(
                "NOT_A_FRAME", f"side {side} is a {type(frame).__name__}, not a DataFrame"
            )
    spark = r.sparkSession
    r, s = with_lateness(r, time, "r", lateness), with_lateness(s, time, "s", lateness)
    streaming = r.isStreaming and s.isStreaming
    if r.isStreaming != s.isStreaming:
        require_timeless(r, s, window=window, time=time, lateness=lateness, select=select)
    if window is None:
        if streaming:
            raise StreamJoinError(
                "NO_WINDOW",
                'two streams need a window: say window="time:10s", or window="unbounded" to keep '
                "every row for ever",
            )
        window = "unbounded"
    scaling = None
    if isinstance(units, Scaling):
        require_scalable(streaming=streaming, window=window, others=(subgroups, draining or None))
        scaling = units
        units, draining = scaling.units, scaling.draining
    if distinct is False:
        distinct = None
    if distinct is not None:
        select = select_with_time(select, time)
    request = make_request(
        spark, r, s, on, window=window, time=time, order=order, select=select, device=device,
        units=units, subgroups=subgroups, draining=draining, late=late,
    )  # fmt: skip
    if late is not None:
        require_lateness(request, tables=not (r.isStreaming or s.isStreaming))
    if distinct is not None:
        with in_sparks_style("DISTINCT"):
            request = replace(request, distinct=window_of(distinct, request.query))
    if scaling:
        kinds = (request.query.window_r.kind, request.query.window_s.kind)
        scaling.keeps_all = "unbounded" in kinds
        request = replace(request, watched=True)
    if streaming or (request.distinct and (r.isStreaming or s.isStreaming)):
        keep_state_in_rocksdb(spark)
    joined = _joined(r, s, request, scaling)
    return deduplicated(joined, request) if request.distinct else joined


def _joined(r: DataFrame, s: DataFrame, request: Request, scaling: Scaling | None) -> DataFrame:
    if r.isStreaming != s.isStreaming:
        return joined_static(r, s, request)
    if not r.isStreaming:
        joined = joined_batch(r, s, request)
        return without_late(joined, request.late) if request.late else joined
    sent = routed_stream(r, request, "r").union(routed_stream(s, request, "s"))
    mode = "EventTime" if request.timed else "None"
    units_ = sent.groupBy("unit")
    told = f"{JOINED}, {WATCHED}" if scaling else JOINED
    joined = units_.transformWithState(Joiner(request), told, "append", mode).alias(OURS)
    return unpacked(watched(joined, scaling) if scaling else joined, request, r, s)


def join_with(s: DataFrame, /, on: str, **options: Any) -> Callable[[DataFrame], DataFrame]:
    """Return a function for ``r.transform(join_with(s, …))``; see :func:`stream_join`."""
    return lambda r: stream_join(r, s, on, **options)


def unpacked(results: DataFrame, request: Request, r: DataFrame, s: DataFrame) -> DataFrame:
    """Return the rows in result envelopes, of a join of ``r`` and ``s``."""
    query, late = request.query, request.late
    schema = with_mark(query, late) if late else result_schema(query)

    def unpack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload, side in zip(batch["payload"], batch["late"].to_pylist(), strict=True):
                for rows in unpack(payload.as_buffer()):
                    if side:
                        rows = late_results(query, side, rows)
                    yield marked(rows, schema, side) if late else conformed(rows, schema)

    target = output_schema(query, schema, r, s)
    if request.timed:
        # A result is not older than the watermark, or than the one of the batch before if it has
        # waited; so its own time may be used as one of an input.
        for output, one in zip(query.outputs, target.fields, strict=False):
            if output.side == "time":
                one.metadata[WATERMARK] = request.delay
                if request.waits:
                    one.metadata[PASSED] = True
    return results.mapInArrow(unpack_rows, target)
