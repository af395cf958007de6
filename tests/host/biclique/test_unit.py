"""Units of the biclique against the definition: any batches, any order of them, any share."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.api import make_query
from eddyline.biclique import meeting
from eddyline.biclique import unit as module
from eddyline.biclique.unit import Sent, Unit
from eddyline.device.reference import ReferenceDevice
from eddyline.errors import DeviceError
from eddyline.plan import Order
from eddyline.reference import arrival_order, join

BAND = "abs(r.x - s.x) <= 2"
PREDICATES = {
    BAND: lambda r, s: abs(r["x"] - s["x"]) <= 2,
    "r.x = s.x": lambda r, s: r["x"] == s["x"],
    "r.x < s.x": lambda r, s: r["x"] < s["x"],
    "r.name = s.name AND r.x <> s.x": lambda r, s: r["name"] == s["name"] and r["x"] != s["x"],
}
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("t", pa.int64(), nullable=False),
        pa.field("x", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
    ]
)

TIMES = st.integers(0, 12) | st.just(500)


@dataclass
class Case:
    """Batches as they come: rows of R, rows of S, and who stores which."""

    on: str
    window: tuple[str, str]
    units: int
    batches: list[tuple[list[dict], list[dict]]]
    restart: int


@st.composite
def cases(draw, *, most: int = 3) -> Case:
    window = st.sampled_from(["time:0", "time:1", "time:7", "time:1000", "unbounded"])
    number = 0
    batches = []
    for drift in draw(st.lists(st.integers(0, 9), max_size=6)):
        sides = []
        for _ in range(2):
            rows = []
            for t, x in draw(st.lists(st.tuples(TIMES, st.integers(-3, 3)), max_size=8)):
                number += 1
                name = "abc"[number % 3]
                rows.append({"n": number, "t": drift * 2 + t, "x": x, "name": name})
            sides.append(rows)
        batches.append((sides[0], sides[1]))
    return Case(
        draw(st.sampled_from(sorted(PREDICATES))),
        (draw(window), draw(window)),
        draw(st.integers(1, most)),
        batches,
        draw(st.integers(0, 6)),
    )


def query_of(case: Case):
    return make_query(
        SCHEMA, SCHEMA, case.on, window=case.window, time="t", select="r.n AS r, s.n AS s"
    )


def expected(case: Case) -> list[tuple[int, int]]:
    """Return what the definition finds in all rows, sorted by time."""
    query = query_of(case)
    sides = [
        [sorted([row for batch in case.batches for row in batch[side]], key=lambda row: row["t"])]
        for side in (0, 1)
    ]
    arrivals, _ = arrival_order(*sides, time=lambda side, row: row["t"])
    names = {(one.side, one.id): one.row["n"] for one in arrivals}
    found = join(arrivals, PREDICATES[case.on], query.window("r"), query.window("s"), Order("none"))
    return sorted((names["r", p[0]], names["s", p[1]]) for p in found if isinstance(p, tuple))


def found(case: Case, device: str = "cpu", *, forget: bool = True) -> list[tuple[int, int]]:
    """Return what units find, of which some are replaced by ones loaded with what is stored."""
    query = query_of(case)
    pairs: list[tuple[int, int]] = []
    everything = [row for batch in case.batches for side in batch for row in side]
    for place in range(case.units):
        unit = Unit(query, device, units=case.units)
        stored: list[list[dict]] = [[], []]
        for number, batch in enumerate(case.batches):
            if number == case.restart:
                unit.close()
                unit = Unit(query, device, units=case.units)
                unit.load(rows(stored[0]), rows(stored[1]))
            sent = []
            for side in (0, 1):
                mine = [row for row in batch[side] if row["n"] % case.units == place]
                stored[side] += mine
                stores = np.array([row in mine for row in batch[side]], bool)
                sent.append(Sent(rows(batch[side]), stores if case.units > 1 else None))
            for result in unit.join(*sent):
                assert result.num_rows
                pairs += zip(result["r"].to_pylist(), result["s"].to_pylist(), strict=True)
            if forget:
                later = [row["t"] for one in case.batches[number + 1 :] for s in one for row in s]
                unit.forget(min(later, default=max((row["t"] for row in everything), default=0)))
        unit.close()
    return sorted(pairs)


def rows(many: list[dict]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(many, schema=SCHEMA)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_units_find_what_the_definition_finds(case):
    assert found(case) == expected(case)


@settings(max_examples=30, deadline=None)
@given(cases(most=1))
def test_any_device_may_be_a_unit(case):
    assert found(case, "reference") == expected(case)


def test_a_straggler_meets_what_the_device_has_let_go_of():
    old = {"n": 1, "t": 0, "x": 0, "name": "a"}
    new = {"n": 2, "t": 100, "x": 0, "name": "a"}
    straggler = {"n": 3, "t": 3, "x": 0, "name": "a"}
    for units in (1, 2, 3):
        case = Case(
            BAND, ("time:5", "time:5"), units, [([old], []), ([new], []), ([], [straggler])], 9
        )
        assert found(case, forget=False) == [(1, 3)]


def test_a_unit_forgets_what_cannot_match_any_more():
    query = query_of(Case(BAND, ("time:5", "time:9"), 1, [], 0))
    unit = Unit(query, "cpu")
    for t in range(50):
        batch = rows([{"n": t, "t": t, "x": 0, "name": "a"}])
        list(unit.join(Sent(batch), Sent(batch)))
        unit.forget(t)
        assert unit.stored <= (6, 10)
    unit.close()


@settings(max_examples=100, deadline=None)
@given(cases())
def test_a_unit_may_begin_again_at_any_time(case):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SPARE", -(10**6))
        assert found(case) == expected(case)


@pytest.mark.parametrize("side", [0, 1])
def test_a_row_far_ahead_does_not_keep_others_from_being_forgotten(side):
    """Watermarks follow the slower side, so they go on behind it."""
    unit = Unit(query_of(Case("r.x = s.x", ("time:5", "time:9"), 1, [], 0)), "cpu")
    pairs = 0
    for t in range(400):
        sides = [[{"n": 0, "t": t, "x": x, "name": "a"} for x in range(50)] for _ in range(2)]
        if t == 20:
            sides[side].append({"n": 0, "t": 10**6, "x": 50, "name": "a"})
        pairs += sum(one.num_rows for one in unit.join(*(Sent(rows(one)) for one in sides)))
        unit.forget(t)
        assert sum(unit.stored) <= 4096 + 4 * (16 * 50 + 1 + 2 * 50)
    ages = range(-9, 6)
    assert pairs == 50 * sum(0 <= t + age < 400 for t in range(400) for age in ages)
    unit.close()


@pytest.mark.parametrize("shown", [False, True])
def test_wide_results_come_in_small_batches(shown):
    asked = make_query(SCHEMA, SCHEMA, "r.x = s.x", window="unbounded", time="t")
    unit = Unit(asked, "cpu", units=2)
    one = rows([{"n": 0, "t": 0, "x": 1, "name": "w" * 2**20}])
    many = rows([{"n": n, "t": 0, "x": 1, "name": "a"} for n in range(200)])
    unit.load(rows([]) if shown else one, many)
    nothing = Sent(many.slice(0, 0))
    if shown:
        found = list(unit.join(Sent(one, np.zeros(1, bool)), nothing))
    else:
        found = list(unit.join(nothing, Sent(many, np.zeros(200, bool))))
    assert sum(batch.num_rows for batch in found) == 200
    assert max(batch.nbytes for batch in found) < 100 * 2**20
    unit.close()


def test_gateware_may_be_a_unit_but_cannot_store_a_share():
    query = query_of(Case(BAND, ("time:5", "time:5"), 1, [], 0))
    with pytest.raises(DeviceError, match="2 units would each hold all of them"):
        Unit(query, "sim:splitjoin?cores=2&window=64", units=2)


class Loses(ReferenceDevice):
    """A device of which a part is off."""

    def counters(self):
        return {"lost_rows": self._tuples // 2}


def test_rows_that_a_device_loses_are_counted_and_told_once(monkeypatch, caplog):
    monkeypatch.setattr(meeting, "open_device", lambda name: Loses())
    unit = Unit(query_of(Case(BAND, ("time:5", "time:5"), 1, [], 0)), "fake")
    batch = Sent(rows([{"n": 1, "t": 1, "x": 0, "name": "a"}] * 4))
    counts = []
    for _ in range(2):
        list(unit.join(batch, batch))
        counts += [unit.newly_lost(), unit.newly_lost()]
    unit.close()
    assert counts == [4, 0, 4, 0]
    assert [one.getMessage()[:20] for one in caplog.records] == ["reference loses rows"]


def test_windows_of_rows_keep_nothing_of_what_has_left_them():
    query = make_query(SCHEMA, SCHEMA, "r.name = s.name", window="rows:10", time="t")
    unit, found = Unit(query, "cpu"), 0
    for number in range(120):
        rows = [
            {"n": n, "t": n, "x": 0, "name": f"name {n}"}
            for n in range(number * 100, number * 100 + 100)
        ]
        batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
        found += sum(some.num_rows for some in unit.join(Sent(batch), Sent(batch)))
        unit.forget(0)
    assert found == 120 * 100
    assert unit.stored == (10, 10)
    assert all(len(side.aged) == 1 for side in unit._sides)
    assert len(unit._dictionary) < 120 * 100 // 2
    unit.close()
