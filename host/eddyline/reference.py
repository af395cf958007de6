"""The definition of the join. Slow, plain, and right: everything else is compared with it.

Input is one total order of arrivals. Each arrival meets the tuples of the other side that came
before it and are in their window at that moment; then it enters its own window (Kang's procedure).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.errors import DataError
from eddyline.plan import Order, Window

__all__ = ["STAR", "Arrival", "Join", "Late", "arrival_order", "join"]

STAR = "*"


@dataclass(frozen=True)
class Arrival:
    """One tuple at its place in the order. ``row`` is whatever ``matches`` understands."""

    side: str
    id: int
    row: Any
    time: int = 0


@dataclass(frozen=True)
class Late:
    """A tuple that came too late to be sorted in: side, stream number and position."""

    side: str
    stream: int
    position: int


class Join:
    """Kang's procedure, one arrival at a time.

    Yields pairs ``(r id, s id)`` in strict inner order, which satisfies every weaker one, and
    stars as ``order`` asks. A star closes an arrival; ``outer:N`` closes every N arrivals (and
    the rest at the end); ``inner:N`` also has a star after every N comparisons of an arrival.
    """

    def __init__(
        self,
        matches: Callable[[Any, Any], bool],
        window_r: Window,
        window_s: Window,
        order: Order,
    ):
        self.matches = matches
        self.windows = {"r": window_r, "s": window_s}
        self.order = order
        self.held: dict[str, list[Arrival]] = {"r": [], "s": []}
        self.open = 0

    def arrive(self, new: Arrival) -> Iterator[tuple[int, int] | str]:
        """Compare a new tuple with the other side's window, then let it enter its own."""
        other = "s" if new.side == "r" else "r"
        partners = _inside(self.held[other], self.windows[other], new.time)
        self.held[other] = partners
        every = self.order.every
        for compared, old in enumerate(partners, start=1):
            r, s = (new, old) if new.side == "r" else (old, new)
            if self.matches(r.row, s.row):
                yield r.id, s.id
            inner = self.order.kind == "inner" and every
            if inner and compared % every == 0 and compared < len(partners):
                yield STAR
        self.held[new.side].append(new)
        self.open += 1
        if self.order.kind != "outer" or self.open >= every:
            self.open = 0
            yield STAR

    def end(self) -> Iterator[str]:
        """Close what is still open and empty the windows."""
        if self.open:
            self.open = 0
            yield STAR
        self.held = {"r": [], "s": []}


def join(
    arrivals: Iterable[Arrival],
    matches: Callable[[Any, Any], bool],
    window_r: Window,
    window_s: Window,
    order: Order,
) -> Iterator[tuple[int, int] | str]:
    """Join a whole input; see :class:`Join`."""
    procedure = Join(matches, window_r, window_s, order)
    for new in arrivals:
        yield from procedure.arrive(new)
    yield from procedure.end()


def _inside(held: list[Arrival], window: Window, now: int) -> list[Arrival]:
    if window.kind == "rows":
        return held[-window.size :]
    if window.kind == "time":
        return [old for old in held if now - old.time <= window.size]
    return held


def arrival_order(
    r: Sequence[Sequence[Any]],
    s: Sequence[Sequence[Any]],
    *,
    time: Callable[[str, Any], int | None] | None = None,
    lateness: int | None = None,
) -> tuple[list[Arrival], list[Late]]:
    """Put the rows of several physical streams per side into the one order.

    Parameters
    ----------
    r, s : sequence of streams
        Each stream is a sequence of rows.
    time : function of side and row, optional
        The time of a row. Without it, sides alternate and the streams of a side take turns.
    lateness : int, optional
        How far a row may lie behind the largest time seen before it on its own stream. Without
        it, a time that runs backwards is an error.

    Returns
    -------
    arrivals, late
        Ids count each side's arrivals from 0.
    """
    if time is None:
        return _numbered(_alternating(r, s)), []
    late: list[Late] = []
    keyed = []
    for side, streams in (("r", r), ("s", s)):
        for stream, rows in enumerate(streams):
            newest: int | None = None
            for position, row in enumerate(rows):
                ts = time(side, row)
                if ts is None:
                    raise DataError(f"stream {side} {stream}, row {position}: the time is NULL")
                if newest is not None and ts < newest - (lateness or 0):
                    if lateness is None:
                        raise DataError(
                            f"stream {side} {stream}, row {position}: time runs backwards"
                        )
                    late.append(Late(side, stream, position))
                    continue
                newest = ts if newest is None else max(newest, ts)
                keyed.append((ts, side, stream, position, row))
    keyed.sort(key=lambda entry: entry[:4])
    return _numbered((side, row, ts) for ts, side, _, _, row in keyed), late


def _alternating(r: Sequence[Sequence[Any]], s: Sequence[Sequence[Any]]) -> Iterator[tuple]:
    """Take a row of R, then one of S; within a side, the streams take turns until they end."""
    sides = {"r": _taking_turns(r), "s": _taking_turns(s)}
    while sides:
        for side in list(sides):
            try:
                yield side, next(sides[side]), 0
            except StopIteration:
                del sides[side]


def _taking_turns(streams: Sequence[Sequence[Any]]) -> Iterator[Any]:
    longest = max((len(rows) for rows in streams), default=0)
    for position in range(longest):
        for rows in streams:
            if position < len(rows):
                yield rows[position]


def _numbered(entries: Iterable[tuple]) -> list[Arrival]:
    count = {"r": 0, "s": 0}
    arrivals = []
    for side, row, ts in entries:
        arrivals.append(Arrival(side, count[side], row, ts))
        count[side] += 1
    return arrivals
