"""Joins of streams without Spark: units are loaded from their state with every batch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.biclique.envelope import unpack
from eddyline.biclique.routing import Router
from eddyline.errors import DataError, QueryError
from eddyline.plan import Order
from eddyline.reference import arrival_order, join
from eddyline.spark.rowhash import row_hashes
from tests.spark.joining import Checkpoint, query_of, request_of, rows_of

WINDOW = st.sampled_from(["time:0ms", "time:2ms", "time:20ms", "unbounded"])
COUNTED = st.sampled_from(["rows:1", "rows:3", "rows:50"])
ROWS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3)), max_size=6)
PREDICATES = {
    "r.x = s.x": lambda r, s: r[2] == s[2],
    "abs(r.x - s.x) <= 1": lambda r, s: abs(r[2] - s[2]) <= 1,
}


@st.composite
def batches(draw) -> list[tuple[int, list[tuple], list[tuple]]]:
    """Return batches of rows of both sides that are later than the watermarks of their batches."""
    watermark, number, found = 0, 0, []
    for step, *sides in draw(st.lists(st.tuples(st.integers(0, 12), ROWS, ROWS), max_size=7)):
        watermark += step
        numbered = []
        for rows in sides:
            numbered.append([(number + n, watermark + t, x) for n, (t, x) in enumerate(rows)])
            number += len(rows)
        found.append((watermark, *numbered))
    return found


def expected(query, many, matches) -> list[tuple[int, int]]:
    sides = []
    for side in (1, 2):
        rows = [row for batch in many for row in batch[side]]
        hashes = row_hashes(rows_of(rows)).tolist()
        # Windows of rows put rows of one time in the order of their hashes.
        order = sorted(range(len(rows)), key=lambda place: (rows[place][1], hashes[place]))
        sides.append([[rows[place] for place in order]])
    arrivals, _ = arrival_order(*sides, time=lambda side, row: row[1])
    names = {(one.side, one.id): one.row[0] for one in arrivals}
    windows = [query.plan.window(side) for side in "rs"]
    found = join(arrivals, matches, *windows, Order("none"))
    return sorted((names["r", one[0]], names["s", one[1]]) for one in found if one != "*")


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(PREDICATES)),
    st.tuples(WINDOW, WINDOW) | st.tuples(WINDOW, COUNTED) | st.tuples(COUNTED, WINDOW | COUNTED),
    batches(),
    st.sampled_from([100, 1 << 20]),
)
def test_units_that_are_always_loaded_again(on, windows, many, chunk_bytes):
    query = query_of(on, windows)
    request = request_of(query, chunk_bytes=chunk_bytes)
    checkpoint, found = Checkpoint(), []
    for watermark, r, s in [*many, (10**6, [], [])]:
        found += checkpoint.batch(request, r, s, watermark)
    assert sorted(found) == expected(query, many, PREDICATES[on])


def test_state_of_few_rows_is_dropped_soon_after_the_window():
    query = query_of("r.x = s.x", "time:100ms")
    checkpoint, state = Checkpoint(), []
    for now in range(1000, 2000, 5):
        checkpoint.batch(request_of(query), [(now, now, 0)], [(now, now, 0)], now - 5)
        state = [checkpoint.units[0].known[f"stored_{side}"] for side in "rs"]
        stored = [row for one in state for (payload,) in one.values() for row in unpack(payload)]
        # Rows of the window, of a tenth of it, of this batch, and of the one before.
        assert sum(one.num_rows for one in stored) <= 2 * ((100 + 10) // 5 + 2)
    assert {len(one) for one in state} <= {11, 12}  # chunks


@pytest.mark.parametrize(("window", "passed"), [("time:20ms", 122), ("unbounded", 10**6)])
def test_rows_in_a_unit_that_nothing_reaches_any_more_are_known_to_the_first(window, passed):
    """All rows of the first run are in the last of its units, which the next run has not."""
    query = query_of("r.x = s.x", window)
    before, after = request_of(query, 4), request_of(query, 3)
    stated = request_of(query, 3, draining=[4])
    router = Router(query, "r", before.routing)
    values = [(0, 0, x) for x in range(99)]
    lost = next(x for x, home in enumerate(router.home(rows_of(values), None)) if home == 3)
    checkpoint = Checkpoint()
    checkpoint.batch(before, [(1, 100, lost)], [], 50)
    for request in (after, before, after):
        if request is before:
            assert checkpoint.batch(before, [], [(2, 101, lost)], 60) == [(1, 2)]
        else:
            with pytest.raises(QueryError, match=r"over 4 units.* add draining=\[4\]"):
                checkpoint.batch(after, [], [(3, 110, lost)], 70)
    assert checkpoint.batch(stated, [], [(3, 110, lost)], 70) == [(1, 3)]
    if window == "unbounded":
        with pytest.raises(QueryError, match=r"add draining=\[4\]"):
            checkpoint.batch(after, [], [(4, passed + 1, lost)], passed)
    else:
        with pytest.raises(QueryError, match=r"add draining=\[4\]"):
            checkpoint.batch(after, [], [(4, passed, lost)], passed - 1)
        assert checkpoint.batch(after, [], [(4, 1 + passed, lost)], passed) == []


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(PREDICATES)),
    st.tuples(WINDOW, WINDOW),
    batches(),
    st.lists(st.tuples(st.integers(1, 4), st.sets(st.integers(1, 4))), min_size=7, max_size=7),
)
def test_whatever_units_a_run_has_no_pair_is_lost(on, windows, many, runs):
    """Every batch is a run of its own; one that is refused is run again with all there were."""
    query, checkpoint, found = query_of(on, windows), Checkpoint(), []
    for (watermark, r, s), (units, draining) in zip(many, runs, strict=False):
        kept = checkpoint.copy()
        try:
            asked = request_of(query, units, draining=draining - {units})
            found += checkpoint.batch(asked, r, s, watermark)
        except QueryError:
            checkpoint = kept
            asked = request_of(query, units, draining={1, 2, 3, 4} - {units})
            found += checkpoint.batch(asked, r, s, watermark)
    assert sorted(found) == expected(query, many, PREDICATES[on])


@pytest.mark.parametrize("window", ["time:20ms", "rows:3"])
def test_another_selection_needs_another_checkpoint(window):
    on, checkpoint = "r.x = s.x", Checkpoint()
    checkpoint.batch(request_of(query_of(on, window)), [(1, 100, 1)], [(1, 100, 2)], 50)
    some = request_of(query_of(on, window, "r.n AS r, s.t AS s"))
    with pytest.raises(DataError, match="rows of stream s .* n is not there any more. Start it"):
        checkpoint.copy().batch(some, [], [(2, 101, 1)], 60)
    whole = request_of(query_of(on, window))
    found = checkpoint.batch(whole, [], [(2, 101, 1)], 60)
    assert found + checkpoint.batch(whole, [], [], 120) == [(1, 2)]
