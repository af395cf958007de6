"""Joins for the twin: a plan, arrivals as records, and what the definition makes of them."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa

from eddyline import reference
from eddyline.device import Tuples
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.plan import Plan, Window
from eddyline.query import Query
from eddyline.query.window import rows
from eddyline.reference import STAR, Arrival
from eddyline.twin import HandshakeTwin

R = pa.schema({"x": pa.int16(), "y": pa.int64()})
S = pa.schema({"a": pa.int16(), "b": pa.int64()})
BAND = "r.x BETWEEN s.a - 2 AND s.a + 2"
SORTED = {
    "band": BAND,
    "band of the other side": "s.a BETWEEN r.x - 2 AND r.x + 2",
    "two bands": f"{BAND} AND r.y BETWEEN s.b - 3 AND s.b + 3",
    "unrelated bounds": "r.x BETWEEN s.a AND s.b",
    "equality": "r.x = s.a",
    "band and more": f"{BAND} AND (r.y <> s.b OR s.a > 2) AND r.x > -30000",
}
UNSORTED = {
    "either": "r.x = s.a OR r.y < s.b",
    "inequality": "r.x <> s.a",
    "one-sided": "r.x > 0 AND s.b < 3",
    "always": "TRUE",
}


@cache
def query(on: str) -> Query:
    return Query(R, S, on, rows(1), rows(1))


def plan(on: str, window_r: Window, window_s: Window) -> Plan:
    return replace(query(on).plan, window_r=window_r, window_s=window_s)


def tuples(on: str, sides: str, seed: int) -> Tuples:
    """Draw rows for arrivals such as ``rsrrs``, with NULLs and ties, and times that never fall."""
    rng = random.Random(seed)
    values = [None, *range(8), 32767, -32768]
    weights = [1, *[4] * 8, 1, 1]
    times = np.cumsum([rng.randint(0, 2) for _ in sides], dtype=np.int64)
    marks = np.array(["rs".index(side) for side in sides], np.uint8)
    encoded = []
    for mark, (side, schema) in enumerate((("r", R), ("s", S))):
        count = int((marks == mark).sum())
        columns = {name: rng.choices(values, weights, k=count) for name in schema.names}
        batch = pa.RecordBatch.from_pydict(columns, schema=schema)
        records = SideEncoder(query(on).lowering.side(side), Dictionary(), side=side).encode(batch)
        records["id"] = np.arange(count)
        records["time"] = times[marks == mark]
        encoded.append(records)
    return Tuples(marks, *encoded)


def parts(whole: Tuples, cuts: list[int]) -> Iterator[Tuples]:
    """Cut arrivals into pieces at these places."""
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    for start, stop in zip(places, places[1:], strict=False):
        seen = [np.cumsum(whole.sides == mark) for mark in (0, 1)]
        ends = [[0, *one][place] for one in seen for place in (start, stop)]
        yield Tuples(
            whole.sides[start:stop], whole.r[ends[0] : ends[1]], whole.s[ends[2] : ends[3]]
        )


def defined(plan: Plan, whole: Tuples) -> Counter:
    records = {"r": iter(whole.r), "s": iter(whole.s)}
    arrivals = []
    for mark in whole.sides:
        record = next(records["rs"[mark]])
        arrivals.append(Arrival("rs"[mark], int(record["id"]), record, int(record["time"])))
    found = reference.join(arrivals, plan.matches, plan.window_r, plan.window_s, plan.order)
    return Counter(item for item in found if item != STAR)


def joined(twin: HandshakeTwin, pieces: Iterator[Tuples]) -> Counter:
    found = [twin.push(piece) for piece in pieces]
    found.append(twin.flush())
    return Counter(pair for r, s in found for pair in zip(r.tolist(), s.tolist(), strict=True))
