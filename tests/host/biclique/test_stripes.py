"""Range subgroups: pairs of a band meet once, in few units, wherever values lie."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eddyline.api import make_query
from eddyline.biclique.routing import Router, Routing, make_routing
from eddyline.biclique.stripes import find_stripes
from eddyline.errors import DataError, QueryError

INTS = pa.schema(
    [
        ("x", pa.int32()), ("y", pa.int32()), ("d", pa.float64()),
        ("l", pa.int64()), ("t", pa.timestamp("us")),
    ]
)  # fmt: skip
ENDS = [-(2**31), 2**31 - 1]
FAR = [0.0, -0.0, 1e300, -1e300, math.inf, -math.inf, math.nan, 5e-324]
VALUES = st.one_of(st.none(), st.integers(-90, 90), st.sampled_from(ENDS))
FLOATS = st.one_of(st.none(), st.floats(-3, 3), st.sampled_from(FAR))
ROWS = st.lists(st.tuples(VALUES, FLOATS), min_size=1, max_size=12)


def near(a, b, width) -> bool:
    """Say what SQL says of ``abs(a - b) <= width`` with b's ends rounded: NULLs match nothing."""
    if a is None or b is None:
        return False
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return b - width <= a <= b + width


PREDICATES = {
    "abs(r.x - s.x) <= 3": lambda r, s: near(r["x"], s["x"], 3),
    "abs(r.l - s.l) <= 3": lambda r, s: near(r["x"], s["x"], 3),
    "abs(r.t - s.t) <= INTERVAL '3' MICROSECOND": lambda r, s: near(r["x"], s["x"], 3),
    "s.x BETWEEN r.x - 3 AND r.x + 3": lambda r, s: near(s["x"], r["x"], 3),
    "r.d BETWEEN s.d - 0.1 AND s.d + 0.1": lambda r, s: near(r["d"], s["d"], 0.1),
}


def units_of(query, side: str, routing: Routing, batch: pa.RecordBatch) -> list[dict[int, bool]]:
    """Return the units that each row is shown to, and whether they store it."""
    found: list[dict[int, bool]] = [{} for _ in range(batch.num_rows)]
    spread = np.arange(batch.num_rows) * 7919 + (side == "s")
    for home, places, units in Router(query, side, routing).ways(batch, spread):
        for place in places.tolist():
            for unit in units:
                assert unit not in found[place]
                found[place][unit] = routing.stores(home, unit)
    return found


@pytest.mark.parametrize("on", PREDICATES)
@settings(max_examples=40)
@given(rows=ROWS, cut=st.sampled_from([(2, 2), (6, 3), (8, 8)]), draining=st.booleans())
@example(rows=[(None, math.inf), (0, math.nan), (1, -math.inf)], cut=(8, 8), draining=True)
@example(rows=[(x, x / 30) for x in range(-60, 60)], cut=(8, 8), draining=False)  # over borders
def test_a_pair_of_a_band_meets_once(on, rows, cut, draining):
    query = make_query(INTS, INTS, on, window="unbounded")
    formers = [make_routing(query, *one) for one in ((3, 3), (4, 1))] if draining else []
    routing = make_routing(query, *cut, [(3, 3), (4, 1)] if draining else [])
    assert routing.ranges
    dicts = [{"x": x, "y": 0, "d": d, "l": x, "t": x} for x, d in rows]
    batch = pa.RecordBatch.from_pylist(dicts, schema=INTS)
    r_units, s_units = (units_of(query, side, routing, batch) for side in "rs")
    for i, one in enumerate(dicts):
        for j, other in enumerate(dicts):
            if not PREDICATES[on](one, other):
                continue
            assert sum(stores and unit in s_units[j] for unit, stores in r_units[i].items()) == 1
            assert sum(stores and unit in r_units[i] for unit, stores in s_units[j].items()) == 1
            for former in formers:  # what was stored in an earlier run is met once, too
                before = units_of(query, "r", former, batch)[i]
                assert sum(stores and unit in s_units[j] for unit, stores in before.items()) == 1


@pytest.mark.parametrize("units", [4, 16])
def test_bands_send_less_by_ranges_than_to_all(units):
    """A row that is sent is a probe: one for values, and few more for intervals."""
    query = make_query(INTS, INTS, "abs(r.x - s.x) <= 3", window="unbounded")
    rng = np.random.default_rng(1)
    many = pa.RecordBatch.from_arrays(
        [pa.array(rng.integers(-(10**6), 10**6, 8000), one.type) for one in INTS], schema=INTS
    )
    sent = {}
    for subgroups in (1, units):
        routing = make_routing(query, units, subgroups)
        shown = [len(one) for side in "rs" for one in units_of(query, side, routing, many)]
        sent[subgroups] = sum(shown) / len(shown)
    assert sent[1] == units
    assert sent[units] < 1.1


def test_intervals_of_other_widths_are_never_passed_over():
    """Ends of a band that is not as wide as tried out would be looked for in the wrong stripes."""
    query = make_query(INTS, INTS, "abs(r.x - s.x) <= 3", window="unbounded")
    stripes = find_stripes(query)
    narrow = replace(stripes, reach=1)
    batch = pa.RecordBatch.from_pylist([{"x": x, "y": 0, "d": 0.0} for x in range(99)], INTS)
    other = "s" if stripes.side == "r" else "r"
    with pytest.raises(DataError, match="use subgroups=1"):
        narrow.touched(query, other, batch)


@pytest.mark.parametrize(
    "on",
    [
        "r.x < s.x",
        "r.x = s.x AND abs(r.y - s.y) <= 3",  # an equality is better
        "s.d BETWEEN r.x AND r.y",  # no constant width
        "abs(r.x - s.x) <= 3 OR r.y < s.y",
        "abs(r.x - s.x) <= 100000000",  # hardly a stripe in all of the type
    ],
)
def test_other_predicates_are_not_cut_by_ranges(on):
    query = make_query(INTS, INTS, on, window="unbounded")
    assert not make_routing(query, 4).ranges
    if " = " not in on:
        assert find_stripes(query) is None
        with pytest.raises(QueryError, match="or a band of constant width"):
            make_routing(query, 4, 2)
