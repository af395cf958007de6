"""``eddyline.join``: the whole thing in one call."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from eddyline.device import Device
from eddyline.device.discovery import open_device
from eddyline.errors import QueryError
from eddyline.io.source import ArrowSource, Source
from eddyline.query import Query
from eddyline.query.parse import matching
from eddyline.query.window import Duration, WindowSpec, parse_order, parse_window, rows
from eddyline.session import BATCH, LateRows, Session

__all__ = ["common_schema", "join", "make_query"]

DEFAULT_WINDOW = rows(65536)


def join(
    r: Any,
    s: Any,
    /,
    on: str,
    *,
    window: Any = DEFAULT_WINDOW,
    time: str | tuple[str, str] | None = None,
    lateness: Any = None,
    order: str = "none",
    select: str | None = None,
    device: str | Device = "auto",
    batch: int | None = None,
    on_late: LateRows | None = None,
) -> pa.RecordBatchReader:
    """Join two streams over sliding windows. Lazy: results flow as the input flows.

    Parameters
    ----------
    r, s : Arrow stream, or a list of them
        The two sides: anything with ``__arrow_c_stream__`` (pyarrow, pandas, Polars, DuckDB). A
        list is several physical streams of one side. A live stream that may fall silent is a
        :class:`eddyline.io.source.Source`, which can yield heartbeats between its batches.
    on : str
        SQL condition over ``r`` and ``s``, such as ``abs(r.x - s.a) <= 10``.
    window : window, or a pair of them
        :func:`eddyline.rows`, :func:`eddyline.time` or :func:`eddyline.unbounded`, or their text
        form (``"time:10s"``). A pair is the window of ``r`` and that of ``s``.
    time : str, or a pair of them
        Time column. Without it, rows are taken alternately, ``r`` first.
    lateness : duration, optional
        How far timestamps may run backwards within a stream, such as ``"2s"``.
    order : str
        ``none``, ``outer``, ``inner``, ``outer:N`` or ``inner:N``.
    select : str, optional
        Result columns, such as ``"r.*, s.a"``; by default those of ``r``, then those of ``s``.
    device : str or Device
        Where to join; see :func:`eddyline.open_device`.
    batch : int, optional
        Most rows a device is given at a time.
    on_late : function of side and batch, optional
        Takes rows that came too late.

    Returns
    -------
    pyarrow.RecordBatchReader
        The result. Errors in the data are raised while reading it.
    """
    sides = [_sources(data, side) for data, side in ((r, "r"), (s, "s"))]
    query = make_query(
        common_schema(sides[0], "r"),
        common_schema(sides[1], "s"),
        on,
        window=window,
        time=time,
        lateness=lateness,
        order=order,
        select=select,
    )
    if batch is not None and batch < 1:
        raise QueryError(f"a batch of {batch} rows holds nothing: use 1 or more")
    opened = open_device(device) if isinstance(device, str) else device
    # Entered here and not in the generator, so that a plan the device refuses is refused now.
    opened.__enter__()
    try:
        session = Session(query, sides[0], sides[1], opened, batch=batch or BATCH, on_late=on_late)
    except BaseException:
        opened.__exit__(None, None, None)
        raise
    return pa.RecordBatchReader.from_batches(session.schema, _run(session, opened))


def _run(session: Session, device: Device) -> Iterator[pa.RecordBatch]:
    try:
        yield from session
        if lost := device.counters().get("lost_rows"):
            warnings.warn(
                f"{lost} rows were lost with cores that are off: their pairs with later rows are "
                "missing",
                stacklevel=2,
            )
    finally:
        device.__exit__(None, None, None)


def make_query(
    r: pa.Schema,
    s: pa.Schema,
    on: str,
    *,
    window: Any = DEFAULT_WINDOW,
    time: str | tuple[str, str] | None = None,
    lateness: Any = None,
    order: str = "none",
    select: str | None = None,
    any_case: bool = False,
) -> Query:
    """Build a query from what people write; see :func:`join`."""
    windows = window if isinstance(window, tuple | list) else (window, window)
    if len(windows) != 2:
        raise QueryError(f"window {window!r} is neither one window nor a pair")
    window_r, window_s = (_window(one) for one in windows)
    times = (time, time) if isinstance(time, str) else time
    if times is not None and not isinstance(times, tuple | list):
        raise QueryError(f"time {time!r} is neither a column nor a pair of columns")
    if times and len(times) == 2:
        times = (_column(r, times[0]), _column(s, times[1]))
    return Query(
        r,
        s,
        on,
        window_r,
        window_s,
        time=times,
        lateness=None if lateness is None else Duration.of(lateness, "lateness"),
        order=parse_order(order),
        select=select,
        any_case=any_case,
    )


def _column(schema: pa.Schema, name: str) -> str:
    """Return the column that a name stands for; one that stands for none stays, to be refused."""
    found = matching(schema.names, name) if isinstance(name, str) else []
    return found[0] if len(found) == 1 else name


def _window(window: Any) -> WindowSpec:
    if isinstance(window, WindowSpec):
        return window
    if isinstance(window, str):
        return parse_window(window)
    raise QueryError(f"{window!r} is not a window: use eddyline.rows, eddyline.time or unbounded")


def _sources(data: Any, side: str) -> list[Source]:
    many = data if isinstance(data, list | tuple) else [data]
    if not many:
        raise QueryError(f"stream {side} has no physical streams")
    return [
        one
        if isinstance(one, Source) and not hasattr(one, "__arrow_c_stream__")
        else ArrowSource(one, name=side if len(many) == 1 else f"{side}[{number}]")
        for number, one in enumerate(many)
    ]


def common_schema(sources: Sequence[Source], side: str) -> pa.Schema:
    """Return the schema of a side's physical streams, which must agree on names and types."""
    first = sources[0].schema
    for number, source in enumerate(sources[1:], start=1):
        if _columns(source.schema) != _columns(first):
            raise QueryError(
                f"physical stream {number} of {side} has other columns than the first: "
                f"{_listed(source.schema)}; the first has {_listed(first)}"
            )
    if len(sources) == 1 or len(_columns(first)) < len(first):  # the query says what is wrong
        return first
    return pa.schema(
        [
            field.with_nullable(any(source.schema.field(field.name).nullable for source in sources))
            for field in first
        ]
    )


def _columns(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
