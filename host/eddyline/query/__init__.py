"""What to join: two schemas, a predicate, two windows, an order and a selection."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from eddyline.errors import QueryError
from eddyline.plan import Order, Plan, Window
from eddyline.query.parse import Names, parse_predicate
from eddyline.query.predicate import Node
from eddyline.query.select import Output, parse_select
from eddyline.query.types import ColumnType, column_type
from eddyline.query.window import Duration, WindowSpec

if TYPE_CHECKING:
    from eddyline.query.lower import Lowering

__all__ = ["Query"]


@dataclass(frozen=True)
class Query:
    """A windowed join of stream ``r`` with stream ``s``. Immutable; wrong ones do not exist.

    Parameters
    ----------
    r, s : pyarrow.Schema
        Columns of the two sides.
    on : str
        SQL condition over ``r`` and ``s``.
    window_r, window_s : WindowSpec
        How long rows of each side stay joinable.
    time : pair of str, optional
        Time column of each side. Without it, rows are taken alternately.
    lateness : Duration, optional
        How far timestamps may run backwards within one physical stream.
    order : Order
        Order of the results.
    select : str, optional
        Result columns, such as ``r.*, s.a``.
    id_bits : int
        Width of the row ids that travel to a device. They wrap around.
    any_case : bool
        Whether names that differ only in case are the same, as they are to most of SQL.
    """

    r: pa.Schema
    s: pa.Schema
    on: str
    window_r: WindowSpec
    window_s: WindowSpec
    time: tuple[str, str] | None = None
    lateness: Duration | None = None
    order: Order = field(default_factory=lambda: Order("none"))
    select: str | None = None
    id_bits: int = 32
    any_case: bool = False

    def __post_init__(self) -> None:
        for side, schema in (("r", self.r), ("s", self.s)):
            alike = [self.names.same(name) for name in schema.names]
            twice = {name for name in alike if alike.count(name) > 1}
            if twice:
                raise QueryError(f"stream {side} has two columns called {min(twice)!r}")
        if self.lateness and not self.time:
            raise QueryError("lateness needs a time column: say which with time")
        for spec in (self.window_r, self.window_s):
            if spec.kind == "time" and not self.time:
                raise QueryError(f"window {spec} needs a time column: say which with time")
        if self.time is not None and len(self.time) != 2:
            raise QueryError(f"time {self.time!r} is neither a column nor a pair of columns")
        _ = (self.tick, self.outputs)
        try:
            _ = self.lowering
        except RecursionError:
            raise QueryError("the predicate is nested too deeply: write it flatter") from None
        held = sum(w.size for w in (self.window("r"), self.window("s")) if w.kind == "rows")
        if held >= 1 << self.id_bits:
            raise QueryError(
                f"windows of {held} rows need more than the {1 << self.id_bits} ids of "
                f"{self.id_bits} bits: use smaller windows"
            )

    def schema(self, side: str) -> pa.Schema:
        return self.r if side == "r" else self.s

    def time_type(self, side: str) -> ColumnType:
        """Return the type of a side's time column."""
        assert self.time
        name = self.time[side == "s"]
        schema = self.schema(side)
        if name not in schema.names:
            known = ", ".join(schema.names)
            raise QueryError(f"no time column {name!r} in stream {side} (there are: {known})")
        type_ = column_type(schema.field(name).type, f"time column {side}.{name}")
        if type_.kind == "nothing":  # no rows, so any clock will do
            others, name = self.schema("r" if side == "s" else "s"), self.time[side == "r"]
            other = others.field(name).type if name in others.names else pa.null()
            type_ = column_type(pa.int64() if pa.types.is_null(other) else other, f"time of {side}")
        if type_.kind != "exact" or type_.unit < 1 or type_.line == "truth":
            raise QueryError(
                f"time column {side}.{name} is {type_.name}: use an integer, a date or a timestamp"
            )
        return type_

    @cached_property
    def tick(self) -> int:
        """Nanoseconds per tick of the join's clock; 0 where time is a plain integer."""
        if not self.time:
            return 0
        types = [self.time_type(side) for side in ("r", "s")]
        if types[0].line != types[1].line:
            raise QueryError(
                f"time columns differ in kind: r.{self.time[0]} is {types[0].name}, "
                f"s.{self.time[1]} is {types[1].name}"
            )
        return 0 if types[0].line == "number" else int(min(type_.unit for type_ in types))

    def ticks(self, duration: Duration, what: str) -> int:
        """Convert a duration to ticks; a part of a tick cannot be told apart and is dropped."""
        assert self.time
        if duration.ticks and self.tick:
            raise QueryError(f"{what} {duration} has no unit: write {duration}s or {duration}ms")
        if not duration.ticks and not self.tick:
            raise QueryError(
                f"{what} {duration} has a unit, but time column {self.time[0]!r} is a plain "
                "integer: write a number in its own units"
            )
        return duration.amount // (self.tick or 1)

    def window(self, side: str) -> Window:
        spec = self.window_r if side == "r" else self.window_s
        if spec.kind == "time":
            assert spec.duration
            return Window("time", self.ticks(spec.duration, "window"))
        return Window(spec.kind, spec.count)

    @cached_property
    def names(self) -> Names:
        """The columns that predicate and selection may name."""
        return Names(self.r, self.s, any_case=self.any_case)

    @cached_property
    def predicate(self) -> Node:
        """The typed tree of ``on``."""
        return parse_predicate(self.on, self.names)

    @cached_property
    def outputs(self) -> list[Output]:
        """The columns of the result."""
        return parse_select(self.select, self.names, timed=self.time is not None)

    @cached_property
    def lowering(self) -> "Lowering":
        """How columns become words, and the predicate over those words."""
        from eddyline.query.lower import lower

        return lower(self.predicate, self.r, self.s)

    @cached_property
    def plan(self) -> Plan:
        """What a device needs to know."""
        return Plan(
            r=self.lowering.r.layout,
            s=self.lowering.s.layout,
            predicate=self.lowering.predicate,
            window_r=self.window("r"),
            window_s=self.window("s"),
            order=self.order,
            timed=self.time is not None,
            id_bits=self.id_bits,
        )
