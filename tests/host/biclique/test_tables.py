"""Two tables on units against the definition: cut anywhere, shared by any number of units."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.api import make_query
from eddyline.biclique import meeting, tables
from eddyline.biclique.order import merged, sorted_places
from eddyline.biclique.tables import OrderedRows, joined_tables
from eddyline.device import no_results
from eddyline.device.reference import ReferenceDevice
from eddyline.plan import Order
from eddyline.reference import arrival_order, join

PREDICATES = {
    "abs(r.x - s.x) <= 2": lambda r, s: abs(r["x"] - s["x"]) <= 2,
    "r.x = s.x": lambda r, s: r["x"] == s["x"],
    "r.x < s.x": lambda r, s: r["x"] < s["x"],
}
SCHEMA = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("n", "t", "x")])
TIMES = ["time:0", "time:4", "time:99", "unbounded"]
ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(-3, 3)), max_size=25)


def numbered(values):
    values = sorted(values, key=lambda value: value[0])
    return [{"n": n, "t": t, "x": x} for n, (t, x) in enumerate(values)]


def found(on, window, sides, units=1, device="cpu"):
    query = make_query(
        SCHEMA, SCHEMA, on, window=window, time="t", select="r.n AS r, s.n AS s, result_time"
    )
    pairs = []
    for unit in range(units):
        ordered = []
        for rows in sides:
            batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            stores = np.arange(len(rows)) % units == unit if units > 1 else None
            ordered.append(OrderedRows(batch, batch["t"].to_numpy(), stores))
        for batch in joined_tables(query, device, *ordered, units=units):
            pairs += [tuple(row.values()) for row in batch.to_pylist()]
    return sorted(pairs)


def expected(on, window, sides):
    query = make_query(SCHEMA, SCHEMA, on, window=window, time="t")
    r, s = sides
    arrivals, _ = arrival_order([r], [s], time=lambda side, row: row["t"])
    rows = {(one.side, one.id): one.row for one in arrivals}
    found = join(arrivals, PREDICATES[on], query.window("r"), query.window("s"), Order("none"))
    pairs = [(rows["r", p[0]], rows["s", p[1]]) for p in found if isinstance(p, tuple)]
    return sorted((one["n"], two["n"], max(one["t"], two["t"])) for one, two in pairs)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(PREDICATES)),
    st.tuples(*[st.sampled_from([*TIMES, "rows:1", "rows:6"])] * 2),
    st.tuples(ROWS.map(numbered), ROWS.map(numbered)),
    st.integers(1, 9),
)
def test_tables_have_the_pairs_of_the_definition(on, window, sides, together):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "TOGETHER", together)
        assert found(on, window, sides) == expected(on, window, sides)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(sorted(PREDICATES)),
    st.tuples(*[st.sampled_from(TIMES)] * 2),
    st.tuples(ROWS.map(numbered), ROWS.map(numbered)),
    st.integers(1, 9),
)
def test_units_share_tables(on, window, sides, together):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "TOGETHER", together)
        assert found(on, window, sides, units=2) == expected(on, window, sides)


def test_wide_results_come_in_small_batches():
    r = pa.record_batch({"x": [1], "text": ["w" * 2**20]})
    s = pa.record_batch({"y": [1] * 200})
    query = make_query(r.schema, s.schema, "r.x = s.y", window="unbounded")
    sides = [OrderedRows(rows, np.zeros(rows.num_rows, np.int64)) for rows in (r, s)]
    found = list(joined_tables(query, "cpu", *sides))
    assert sum(batch.num_rows for batch in found) == 200
    assert max(batch.nbytes for batch in found) < 100 * 2**20


class Holds(ReferenceDevice):
    """A device that hands nothing over before it is flushed, and then has empty windows."""

    def pull(self):
        return no_results(0)


def test_a_device_that_needs_further_input_is_flushed_after_the_last(monkeypatch):
    monkeypatch.setattr(tables, "TOGETHER", 5)
    monkeypatch.setattr(meeting, "open_device", lambda name: Holds())
    rng = np.random.default_rng(3)
    sides = tuple(numbered(rng.integers(0, 30, (40, 2)).tolist()) for _ in range(2))
    on, window = "abs(r.x - s.x) <= 2", "time:4"
    assert found(on, window, sides) == expected(on, window, sides) != []


@given(*[st.lists(st.integers(-5, 5)).map(np.array)] * 2)
def test_a_batch_is_ordered_by_time_r_before_s(r, s):
    sorted_sides = []
    for times in (r, s):
        places = sorted_places(times)
        assert (places is None) == (sorted(times.tolist()) == times.tolist())
        sorted_sides.append(times if places is None else times[places])
        if places is not None:
            assert places.tolist() == np.argsort(times, kind="stable").tolist()
    sides = np.repeat([0, 1], [len(r), len(s)])
    both = np.concatenate(sorted_sides)
    assert merged(*sorted_sides).tolist() == sides[np.lexsort((sides, both))].tolist()
