"""What units of both models store and are sent: BiStream's figures 6, 10 and 11, as tables.

Bytes are those of the envelopes that Spark shuffles and keeps as state, beside what the paper's
equations 1 (stored), 5 and 6 (sent) say, all in parts of the input. A row that a unit stores is not
sent there again to meet the other side, since a unit is one for both sides (docs/decisions.md), so
less is sent than equation 5 says. Memory over time is that of one unit, with its window. What fits
until a unit is full is the paper's maximum processing volume, with full history.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from eddyline.api import make_query
from eddyline.biclique.envelope import pack
from eddyline.biclique.routing import Router, Routing, make_routing
from eddyline.biclique.unit import Sent, Unit
from eddyline.query import Query

ROWS = 1 << 16
SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int32()), ("v", pa.int64())])
# Units and subgroups of a biclique, or rows and columns of a matrix.
CUTS: list[tuple[int | tuple[int, int], int | None]] = [
    (1, 1), (4, 1), (4, 2), (4, 4), (16, 1), (16, 2), (16, 4), (16, 16), (64, 1), (64, 8),
    ((2, 2), None), ((4, 4), None), ((8, 8), None),
]  # fmt: skip
EQUALITY, BAND = "r.k = s.k", "abs(r.k - s.k) <= 3"
BAND_CUTS = [(4, 1), (4, 2), (4, 4), (16, 1), (16, 4), (16, 16)]
STEPS, WINDOWS = 40, (5, 10, 20)  # windows are in steps
SQUARES = (2, 4, 6, 8)  # rows and columns of matrices, and bicliques of as many units
ROOM = 1 << 20  # bytes that a unit may store
STEP = 1 << 15  # rows of a side that are routed at a time


def measure() -> Iterator[str]:
    yield "| units | subgroups | largest unit stores | all store (equation 1) | sent (5, 6) |"
    for units, subgroups in CUTS:
        query = _query("unbounded")
        yield _line(query, make_routing(query, units, subgroups))
    yield "a band, whose subgroups are ranges with copies at their borders:"
    yield "| units | subgroups | largest unit stores | all store | sent |"
    for units, subgroups in BAND_CUTS:
        query = _query("unbounded", BAND)
        yield _line(query, make_routing(query, units, subgroups), says=False)
    yield f"rows held by a unit after every fifth of {STEPS} steps, in steps' worth of rows:"
    for window in WINDOWS:
        held = ", ".join(f"{one:.1f}" for one in _held(window))
        yield f"| window of {window} steps | {held} |"
    yield f"thousands of rows until a unit stores more than {ROOM >> 20} MiB:"
    yield "| units | biclique | per unit | matrix | per unit |"
    for side in SQUARES:
        units = side * side
        volumes = [_volume(units, 1), _volume((side, side), None)]
        told = " | ".join(f"{one / 1e3:.0f} | {one / 1e3 / units:.1f}" for one in volumes)
        yield f"| {units} | {told} |"


def _line(query: Query, routing: Routing, *, says: bool = True) -> str:
    """Return what units store and are sent, with what the paper's equations say beside it."""
    stored: Counter[int] = Counter()
    sent = plain = 0
    for number, side in enumerate("rs"):
        rows, spread = _rows(number, 0, ROWS), _spread(number, 0, ROWS)
        plain += len(pack(rows))
        for home, mine, units in Router(query, side, routing).ways(rows, spread):
            size = len(pack(rows.take(pa.array(mine))))
            sent += size * len(units)
            stored.update({unit: size for unit in units if routing.stores(home, unit)})
    lines, columns = (routing.lines(side) for side in "rs")
    # Both sides are as large as each other. Equation 5 with m = n units in d = e subgroups.
    store_says = (lines + columns) / 2 if routing.columns else 1
    sent_says = store_says if routing.columns else routing.each + 1
    name = f"{lines} x {columns} matrix" if routing.columns else str(routing.units)
    equations = [f" ({one:.2f})" if says else "" for one in (store_says, sent_says)]
    return (
        f"| {name} | {'' if routing.columns else routing.subgroups} "
        f"| {max(stored.values()) / plain:.3f} | {sum(stored.values()) / plain:.2f}"
        f"{equations[0]} | {sent / plain:.2f}{equations[1]} |"
    )


def _volume(units: int | tuple[int, int], subgroups: int | None) -> int:
    """Return the rows that fit until the fullest unit is full: the maximum processing volume.

    Within a step, the unit is taken to fill evenly.
    """
    query = _query("unbounded")
    routing = make_routing(query, units, subgroups)
    routers = [Router(query, side, routing) for side in "rs"]
    stored: Counter[int] = Counter({0: 0})
    volume = 0
    while True:
        before = max(stored.values())
        for number, router in enumerate(routers):
            rows = _rows(number, volume, STEP)
            for home, mine, seen_by in router.ways(rows, _spread(number, volume, STEP)):
                size = len(pack(rows.take(pa.array(mine))))
                stored.update({unit: size for unit in seen_by if routing.stores(home, unit)})
        after = max(stored.values())
        if after > ROOM:
            return volume + 2 * STEP * (ROOM - before) // (after - before)
        volume += 2 * STEP


def _held(window: int) -> Iterator[float]:
    """Feed a unit step by step, and yield what it holds."""
    each = ROWS // STEPS
    unit = Unit(_query(f"time:{window * each}"), "cpu")
    for step in range(STEPS):
        for _ in unit.join(*(Sent(_rows(n, step * each, each)) for n in (0, 1))):
            pass
        unit.forget((step + 1) * each - 1)
        if step % 5 == 4:
            yield sum(unit.stored) / (2 * each)
    unit.close()


def _query(window: str, on: str = EQUALITY) -> Query:
    return make_query(SCHEMA, SCHEMA, on, window=window, time="t")


def _rows(seed: int, first: int, count: int) -> pa.RecordBatch:
    rng = np.random.default_rng([seed, first])
    t = np.arange(first, first + count)
    columns = [t, rng.integers(0, count, count).astype(np.int32), 3 * t]
    return pa.RecordBatch.from_arrays([pa.array(one) for one in columns], schema=SCHEMA)


def _spread(seed: int, first: int, count: int) -> np.ndarray:
    rng = np.random.default_rng([seed, first, 1 << 20])
    return rng.integers(-(2**63), 2**63 - 1, count)
