"""Windows, durations and orders as people write them."""

import datetime
import re
from dataclasses import dataclass

from eddyline.errors import QueryError
from eddyline.plan import Order
from eddyline.query.types import DAY

__all__ = ["Duration", "WindowSpec", "parse_order", "parse_window", "rows", "time", "unbounded"]

UNITS = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9,
    "h": 3600 * 10**9, "d": DAY,
}  # fmt: skip
WINDOW_HELP = "rows:65536, time:10s or unbounded"


@dataclass(frozen=True)
class Duration:
    """A length of time: nanoseconds, or plain ticks of an integer time column."""

    amount: int
    ticks: bool = False

    def __str__(self) -> str:
        if self.ticks:
            return str(self.amount)
        whole = [(name, size) for name, size in UNITS.items() if self.amount % size == 0]
        name, size = max(whole, key=lambda unit: unit[1])
        return f"{self.amount // size}{name}"

    @classmethod
    def of(cls, value: "str | int | datetime.timedelta | Duration", what: str) -> "Duration":
        """Read ``10s``, ``1.5h``, a plain number of ticks or a timedelta."""
        if isinstance(value, Duration):
            duration = value
        elif isinstance(value, datetime.timedelta):
            duration = cls(value // datetime.timedelta(microseconds=1) * 1000)
        elif isinstance(value, int) and not isinstance(value, bool):
            duration = cls(value, ticks=True)
        elif isinstance(value, str):
            duration = cls._parse(value, what)
        else:
            raise QueryError(f"{what} {value!r} is not a duration: write 10s, 500ms or 2h")
        if duration.amount < 0:
            raise QueryError(f"{what} {value!r} is negative")
        return duration

    @classmethod
    def _parse(cls, text: str, what: str) -> "Duration":
        match = re.fullmatch(r"\s*(-?\d+)(?:\.(\d+))?\s*([a-z]*)\s*", text)
        if not match or (match[3] and match[3] not in UNITS) or (match[2] and not match[3]):
            known = ", ".join(UNITS)
            raise QueryError(f"{what} {text!r} is not a duration: a number and one of {known}")
        if not match[3]:
            return cls(int(match[1]), ticks=True)
        fraction = match[2] or ""
        amount, rest = divmod(int(match[1] + fraction) * UNITS[match[3]], 10 ** len(fraction))
        if rest:
            raise QueryError(f"{what} {text!r} is finer than a nanosecond")
        return cls(amount)


@dataclass(frozen=True)
class WindowSpec:
    """One side's window: the last ``count`` rows, the last ``duration``, or everything."""

    kind: str
    count: int = 0
    duration: Duration | None = None

    def __str__(self) -> str:
        return {"rows": f"rows:{self.count}", "time": f"time:{self.duration}"}.get(
            self.kind, self.kind
        )


def rows(count: int) -> WindowSpec:
    """Return a window of the last ``count`` rows of a side."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise QueryError(f"a window of {count!r} rows is not a whole number")
    if count < 1:
        raise QueryError(f"a window of {count} rows holds nothing: use 1 or more")
    return WindowSpec("rows", count=count)


def time(duration: "str | int | datetime.timedelta | Duration") -> WindowSpec:
    """Return a window of the rows at most ``duration`` older than the newest.

    A string such as ``"10s"``, a timedelta, or a plain number in the units of an integer time
    column. A duration of zero keeps rows with the same timestamp.
    """
    return WindowSpec("time", duration=Duration.of(duration, "window"))


def unbounded() -> WindowSpec:
    """Return a window that keeps every row."""
    return WindowSpec("unbounded")


def parse_window(text: str) -> WindowSpec:
    kind, _, size = text.partition(":")
    if kind == "unbounded" and not size:
        return unbounded()
    if kind == "rows" and re.fullmatch(r"-?\d+", size):
        return rows(int(size))
    if kind == "time" and size:
        return time(size)
    raise QueryError(f"{text!r} is not a window: write {WINDOW_HELP}")


def parse_order(text: str) -> Order:
    """Read ``none``, ``outer``, ``inner``, ``outer:N`` or ``inner:N``."""
    match = re.fullmatch(r"(none|outer|inner)(?::(\d+))?", str(text))
    every = int(match[2] or 0) if match else 0
    if not match or (match[2] and (match[1] == "none" or not 1 <= every < 2**32)):
        raise QueryError(
            f"{text!r} is not an order: write none, outer, inner, outer:N or inner:N, N up to 2^32"
        )
    return Order(match[1], every)
