"""Joins for the conformance suite: what to join, and what the definition makes of it."""

from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import strategies as st

from eddyline import reference
from eddyline.plan import Order
from eddyline.query import Query
from eddyline.query.predicate import holds
from eddyline.query.types import raw_values
from eddyline.query.window import Duration, WindowSpec, rows, time, unbounded

R = pa.schema(
    {
        "rid": pa.int32(),
        "ts": pa.int64(),
        "x": pa.int16(),
        "y": pa.float32(),
        "t": pa.string(),
        "v": pa.string(),
    }
)
S = pa.schema(
    {"sid": pa.int32(), "ts": pa.int64(), "a": pa.int16(), "b": pa.float32(), "u": pa.string()}
)

PREDICATES = {
    "equality": "r.x = s.a",
    "inequality": "r.x <> s.a",
    "strict": "r.x < s.a",
    "band": "r.x BETWEEN s.a - 2 AND s.a + 2",
    "band of the other side": "s.b BETWEEN r.y - 2 AND r.y + 2",
    "two-dimensional band": "r.x BETWEEN s.a-10 AND s.a+10 AND r.y BETWEEN s.b-10 AND s.b+10",
    "float distance": "abs(r.y - s.b) <= 0.1",
    "text": "r.t = s.u",
    "two texts": "r.t = s.u OR r.v = s.u",
    "not text": "r.t <> s.u AND r.x = s.a",
    "either": "r.x = s.a OR r.y = s.b OR NOT (r.t = s.u)",
    "nested": "(r.x = s.a OR r.y < s.b) AND (r.x <> s.a + 1 OR r.x > 2) AND s.a < 4",
    "one-sided": "r.x > 0 AND s.u IN ('a', 'b')",
    "always": "TRUE",
    "never": "r.x = s.a AND FALSE",
}
WINDOWS = [rows(1), rows(2), rows(5), rows(1000), unbounded()]
TIMED_WINDOWS = [*WINDOWS, time(0), time(2), time(50)]
ORDERS = ["none", "outer", "inner", "outer:1", "outer:3", "inner:1", "inner:3"]


@dataclass(frozen=True)
class Case:
    """One join: rows of each physical stream, and the rest of the query."""

    on: str
    r: list[list[dict]]
    s: list[list[dict]]
    windows: tuple[WindowSpec, WindowSpec]
    order: Order
    timed: bool
    lateness: int | None = None
    batch: int = 1 << 16
    pieces: int = 1 << 16
    id_bits: int = 32
    query: Query = field(init=False, compare=False, repr=False)

    def __post_init__(self):
        query = Query(
            R, S, self.on, *self.windows,
            time=("ts", "ts") if self.timed else None,
            lateness=None if self.lateness is None else Duration(self.lateness, ticks=True),
            order=self.order, select="rid, sid", id_bits=self.id_bits,
        )  # fmt: skip
        object.__setattr__(self, "query", query)

    def tables(self, side: str) -> list[pa.Table]:
        schema = R if side == "r" else S
        return [pa.Table.from_pylist(stream, schema=schema) for stream in getattr(self, side)]

    def expected(self) -> tuple[list[tuple[int, int] | str], int]:
        """Return pairs of row ids and stars by the definition, and how many rows are late."""
        streams = [[_raw(table) for table in self.tables(side)] for side in "rs"]
        arrivals, late = reference.arrival_order(
            *streams,
            time=(lambda _, row: row["ts"]) if self.timed else None,
            lateness=self.lateness,
        )
        arrivals = [
            reference.Arrival(
                one.side, one.row["rid" if one.side == "r" else "sid"], one.row, one.time
            )
            for one in arrivals
        ]
        plan = self.query.plan
        found = reference.join(
            arrivals,
            lambda r, s: holds(self.query.predicate, r, s) is True,
            plan.window_r, plan.window_s, self.order,
        )  # fmt: skip
        return list(found), len(late)


def _raw(table: pa.Table) -> list[dict]:
    columns = {name: raw_values(table[name].combine_chunks()) for name in table.schema.names}
    return [{name: columns[name][i] for name in columns} for i in range(table.num_rows)]


def _order(text: str) -> Order:
    kind, _, every = text.partition(":")
    return Order(kind, int(every or 0))


NUMBERS = {
    "ties": st.just(3),
    "few": st.integers(0, 4),
    "skewed": st.sampled_from([1] * 9 + [2, 30_000]),
    "extreme": st.sampled_from([-32768, 32767, 0, None, 1, -1]),
    "wide": st.none() | st.integers(-40, 40),
}
FLOATS = {
    "ties": st.just(3.0),
    "few": st.integers(0, 4).map(float),
    "skewed": st.sampled_from([1.0] * 9 + [1.1, 1e30]),
    "extreme": st.sampled_from(
        [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, None, 3.4e38]
    ),
    "wide": st.none() | st.floats(-40, 40, width=32),
}
STRINGS = st.none() | st.sampled_from(["a", "b", "", "é"]) | st.text("xyz", max_size=2)


@st.composite
def streams(draw, side: str, shape: str, times: str, most: int) -> list[list[dict]]:
    """Draw one or two physical streams of a side, with row ids that are unique in the side."""
    names = {"r": ("rid", "x", "y", "t", "v"), "s": ("sid", "a", "b", "u")}[side]
    kinds = [NUMBERS[shape], FLOATS[shape], STRINGS, STRINGS]
    cells = st.fixed_dictionaries(dict(zip(names[1:], kinds, strict=False)))
    drawn, next_id = [], 0
    for _ in range(draw(st.integers(1, 2))):
        some = draw(st.lists(cells, max_size=most))
        gap = {"tied": st.just(0), "spread": st.integers(0, 3), "jumbled": st.integers(-2, 3)}[
            times
        ]
        now = 0
        for row in some:
            now += draw(gap)
            row |= {names[0]: next_id, "ts": now}
            next_id += 1
        drawn.append(some)
    return drawn


@st.composite
def cases(draw, on: str) -> Case:
    timed = draw(st.booleans())
    lateness = draw(st.none() | st.integers(0, 3)) if timed else None
    times = draw(st.sampled_from(["tied", "spread"] if lateness is None else ["spread", "jumbled"]))
    shape = draw(st.sampled_from(list(NUMBERS)))
    windows = st.sampled_from(TIMED_WINDOWS if timed else WINDOWS)
    pair = draw(st.tuples(windows, windows))
    # Ids wrap around: with 8 bits they do so within a run, where the windows leave room for it.
    small = all(window.kind == "rows" and window.count < 50 for window in pair)
    most = draw(st.sampled_from([0, 1, 4, 20]))
    return Case(
        on=on,
        r=draw(streams("r", shape, times, most)),
        s=draw(streams("s", shape, times, draw(st.sampled_from([0, 1, most])))),
        windows=pair,
        order=_order(draw(st.sampled_from(ORDERS))),
        timed=timed,
        lateness=lateness,
        batch=draw(st.sampled_from([1, 3, 1 << 16])),
        pieces=draw(st.sampled_from([1, 3, 1 << 16])),
        id_bits=8 if small else 32,
    )
