"""Ways of rows: every pair that may match meets in exactly one unit that stores the earlier row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.api import make_query
from eddyline.biclique.routing import Router, make_routing, require_known
from eddyline.errors import QueryError

R = pa.schema([("k", pa.int64()), ("name", pa.string())])
S = pa.schema([("k", pa.int16()), ("name", pa.string())])


def query(on: str):
    return make_query(R, S, on, window="unbounded")


def homes(router: Router, rows: list[dict], schema: pa.Schema, salt: int) -> list[int]:
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    return router.home(batch, np.arange(len(rows)) * 7919 + salt).tolist()


@settings(max_examples=100)
@given(
    st.sampled_from(["r.k < s.k", "r.k = s.k", "r.name = s.name AND r.k = s.k", "r.name = s.name"]),
    st.sampled_from([1, 2, 5, 6, (2, 3), (1, 4)]),
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["a", "b", ""])), max_size=12),
    st.integers(0, 10**6),
)
def test_a_pair_that_matches_meets_once(on, units, values, salt):
    asked = query(on)
    routing = make_routing(asked, units)
    rows = [{"k": k, "name": name} for k, name in values]
    r_homes = homes(Router(asked, "r", routing), rows, R, salt)
    s_homes = homes(Router(asked, "s", routing), rows, S, salt + 1)
    for one, i in zip(rows, r_homes, strict=True):
        for other, j in zip(rows, s_homes, strict=True):
            if " = " in on and one != other:
                continue
            r_units, s_units = routing.shown("r", i), routing.shown("s", j)
            # Wherever one of the two is stored, the other one is shown.
            early = [u for u in r_units if routing.stores(i, u) and u in s_units]
            late = [u for u in s_units if routing.stores(j, u) and u in r_units]
            assert len(early) == len(late) == 1


def test_rows_that_match_nothing_are_not_sent():
    asked = query("r.k = s.k")
    router = Router(asked, "r", make_routing(asked, 4))
    assert homes(router, [{"k": None, "name": "a"}], R, 1) == [-1]


def test_rows_are_spread_evenly():
    asked = query("r.k < s.k")
    router = Router(asked, "r", make_routing(asked, 7))
    rows = [{"k": 1, "name": "a"}] * 7000
    counts = np.bincount(homes(router, rows, R, 3), minlength=7)
    assert counts.min() > 850


def test_a_value_that_is_most_of_the_data_is_spread_within_its_subgroup():
    asked = query("r.k = s.k")
    router = Router(asked, "r", make_routing(asked, 8, 2))
    counts = np.bincount(homes(router, [{"k": 1, "name": "a"}] * 4000, R, 3), minlength=8)
    assert sorted(counts > 850) == [False] * 4 + [True] * 4


@pytest.mark.parametrize("on", ["r.k < s.k", "r.k = s.k"])
def test_units_of_earlier_runs_are_shown_what_may_match(on):
    asked = query(on)
    rows = [{"k": k, "name": "a"} for k in range(-9, 9)]
    batch = pa.RecordBatch.from_pylist(rows, schema=R)
    spread = np.arange(len(rows)) * 7919
    before = Router(asked, "r", make_routing(asked, 5)).home(batch, spread)
    other = pa.RecordBatch.from_pylist(rows, schema=S)
    now = Router(asked, "s", make_routing(asked, 2, None, [5]))
    seen = {}
    for home, places, units in now.ways(other, spread + 1):
        assert home in units
        for place in places.tolist():
            seen[place] = units
    for i, home in enumerate(before.tolist()):
        for j in range(len(rows)):
            if "=" not in on or i == j:
                assert home in seen[j]


@pytest.mark.parametrize(
    ("on", "before", "now", "says"),
    [
        ("r.k = s.k", (4,), (2,), r"over 4 units.* add draining=\[4\]"),
        ("r.k = s.k", (4, 2), (4,), r"over 4 units.* add draining=\[\(4, 2\)\]"),
        ("r.k < s.k", (4,), (2, None, [3]), r"over 4 units.* add draining=\[4\]"),
        ("r.k < s.k", ((2, 3),), (6,), r"over 6 units.* give units=\(2, 3\)"),
        ("r.k < s.k", (6,), ((2, 3),), "over 6 units.* give units=6, subgroups=1"),
    ],
)
def test_rows_that_nothing_would_meet_are_refused(on, before, now, says):
    asked = query(on)
    stored = [make_routing(asked, *before).label]
    with pytest.raises(QueryError, match=says):
        require_known(asked, make_routing(asked, *now), stored)


def test_rows_of_this_routing_and_of_those_that_drain_are_met():
    asked = query("r.k = s.k")
    stored = [make_routing(asked, *one).label for one in ((3,), (4, 2), (6,))]
    require_known(asked, make_routing(asked, 6, None, [3, (4, 2)]), stored)


CUTS = [
    "r.k = s.k",
    "r.k + 1 = s.k",
    "r.k = s.k AND r.name = s.name",
    "r.name = s.name AND r.k = s.k",
    "abs(r.k - s.k) <= 3",
    "abs(r.k - s.k) <= 4",
    "r.k BETWEEN s.k - 1 AND s.k + 5",
    "abs(r.l - s.k) <= 3",
]


def test_rows_that_were_cut_by_another_predicate_are_refused():
    """Numbers of units do not tell it."""
    wide = pa.schema([*R, ("l", pa.int32())])
    queries = [make_query(wide, wide, on, window="unbounded") for on in CUTS]
    for stored in queries:
        label = make_routing(stored, 4, 4).label
        for now in queries:
            for routing in (make_routing(now, 4, 4), make_routing(now, 2, 2, [(4, 4)])):
                if now is stored:
                    require_known(now, routing, [label])
                else:
                    with pytest.raises(QueryError, match="give the predicate of that run"):
                        require_known(now, routing, [label])


@pytest.mark.parametrize(
    ("before", "now", "units"),
    [
        ("r.k = s.k AND r.name <> s.name", "r.k = s.k", (4,)),
        ("abs(r.k - s.k) <= 3 AND r.name <> s.name", "abs(r.k - s.k) <= 3", (4, 2)),
        ("r.k = s.k", "abs(r.k - s.k) <= 3", (4, 1)),
    ],
)
def test_what_rows_were_not_cut_by_may_change(before, now, units):
    stored = make_routing(query(before), *units).label
    require_known(query(now), make_routing(query(now), *units), [stored])


@pytest.mark.parametrize("units", [0, True, "3", (1, 0)])
def test_impossible_numbers(units):
    with pytest.raises(QueryError):
        make_routing(query("r.k < s.k"), units)
