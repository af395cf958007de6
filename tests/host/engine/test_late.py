"""Tuples in any order of time: the pairs are those of the same tuples in order."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.clock import EARLIEST, LATEST
from eddyline.device import Tuples
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.engine.choice import choose
from eddyline.engine.indexed import IndexedJoin
from eddyline.engine.part import Engine
from eddyline.errors import DeviceError
from eddyline.plan import Order, Plan, Window
from tests.host.engine.draws import pulled
from tests.host.twin.joins import (
    BAND,
    SORTED,
    UNSORTED,
    R,
    S,
    defined,
    parts,
    plan,
    query,
    tuples,
)

ENGINES = ["auto", "bisort", "rap", "wib", "hash", "grid"]
PREDICATES = {**SORTED, "inequality": UNSORTED["inequality"], "either": "r.x = s.a OR r.y = s.b"}
# Of a tick, of some, of all there are, and without end.
WINDOWS = st.sampled_from(
    [Window("time", size) for size in (0, 1, 2, 9, 50, 2**63, 2**64 - 1)] + [Window("unbounded")]
)
# Windows of time are taken for 64K tuples at least, so these have some dozen or a few in each.
FEW, MANY = 1 << 10, 1 << 14


def opened(one: Plan, engine: str, *, subwindows: int = 0, threads: int = 1) -> IndexedJoin | None:
    """Return an engine that takes tuples in any order, if this kind of it can serve the plan."""
    try:
        choice = choose(one, engine)
    except DeviceError:
        return None
    join = choice.open(one, subwindows=subwindows, threads=threads)
    assert isinstance(join, IndexedJoin)
    assert join.accept_late()
    return join


def in_time(whole: Tuples) -> Tuples:
    """Sort arrivals by time; of equal times, R comes first, each side in order of position."""
    order = np.lexsort((whole.sides, whole.times))
    r, s = (records[np.argsort(records["time"], kind="stable")] for records in (whole.r, whole.s))
    return Tuples(whole.sides[order], r, s)


def disordered(whole: Tuples, delays: np.ndarray) -> Tuples:
    """Let each arrival come so much later than its time says."""
    order = np.argsort(whole.times + delays, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    r, s = (
        records[np.argsort(rank[whole.sides == mark])]
        for mark, records in enumerate((whole.r, whole.s))
    )
    return Tuples(whole.sides[order], r, s)


def watermarks(whole: Tuples, seen: int) -> tuple[int, int]:
    """Return the earliest times of R and of S that follow the first arrivals."""
    rest, sides = whole.times[seen:], whole.sides[seen:]
    r, s = (int(rest[sides == mark].min(initial=LATEST)) for mark in (0, 1))
    return r, s


@st.composite
def arrivals(draw, on: str) -> Tuples:
    """Draw tuples on their way: some on time, some late by little, or by much."""
    count = draw(st.integers(1, 400))
    sides = draw(st.sampled_from(["rs", "rrs", "s" * 9 + "r" * 9, "rsss", "r" * 60 + "s" * 60]))
    seed = draw(st.integers(0, 1 << 16))
    whole = tuples(on, (sides * count)[:count], seed)
    rng = np.random.default_rng(seed)
    share = draw(st.sampled_from([0.02, 0.3, 1.0]))
    most = draw(st.sampled_from([1, 5, 40, 1000]))
    delays = np.where(rng.random(count) < share, rng.integers(0, most + 1, count), 0)
    return disordered(whole, delays)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_pairs_are_those_of_the_rows_in_order(engine, data):
    on = data.draw(st.sampled_from(list(PREDICATES.values())))
    one = plan(on, data.draw(WINDOWS), data.draw(WINDOWS))
    whole = data.draw(arrivals(on))
    size = data.draw(st.sampled_from([1, 2, 7, 50, 1000]))
    told = data.draw(st.sampled_from([0.0, 0.5, 1.0]))  # how often the watermark is said
    pull = data.draw(st.sampled_from([0.3, 1.0]))
    join = opened(
        one,
        engine,
        subwindows=data.draw(st.sampled_from([0, FEW, MANY])),
        threads=data.draw(st.sampled_from([1, 2])),
    )
    if join is None:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    found, seen = [], 0
    for piece in parts(whole, list(range(size, len(whole), size))):
        join.push(piece)
        seen += len(piece)
        if rng.random() < told:
            join.watermark(*watermarks(whole, seen))
        if rng.random() < pull:
            found += pulled(join)
    found += pulled(join)
    join.close()
    assert Counter(found) == defined(one, in_time(whole))


@pytest.mark.parametrize("engine", ["bisort", "rap", "wib", "hash", "grid"])
def test_late_tuples_are_found_where_windows_have_many_subwindows(engine):
    """Thousands of tuples, some of them as late as the window is long."""
    on = "r.x = s.a" if engine == "hash" else SORTED["two bands"] if engine == "grid" else BAND
    kept = Window("time", 500)
    one = plan(on, kept, replace(kept, size=200))
    rng = np.random.default_rng(5)
    count, size = 6000, 100
    delays = np.where(rng.random(count) < 0.1, rng.integers(0, 500, count), 0)
    whole = disordered(tuples(on, "rs" * (count // 2), 5), delays)
    join = opened(one, engine, subwindows=1000)
    assert join is not None
    found, most, seen = [], 0, 0
    for piece in parts(whole, list(range(size, count, size))):
        join.push(piece)
        found += pulled(join)
        seen += len(piece)
        join.watermark(*watermarks(whole, seen))
        if engine in ("bisort", "rap", "wib"):
            report = join.report()
            most = max(most, report["subwindows_r"])
            # What none can meet any more is gone: windows, lateness, and a subwindow each.
            assert sum(held.tuples for held in join.held()) < 1200
    assert Counter(found) == defined(one, in_time(whole))
    if engine in ("bisort", "rap", "wib"):
        assert most > 4
        assert join.report()["aside_r"] > 100
        assert join.report()["expired_r"] > 4
    join.close()


def test_what_only_late_rows_can_meet_is_not_looked_up():
    """Subwindows stay for rows that may be late; those that are on time pass them by."""
    kept = Window("time", 50)
    one = plan(BAND, kept, kept)
    whole = tuples(BAND, "rs" * 2000, 8)
    join = opened(one, "bisort", subwindows=FEW)
    assert join is not None
    found = []
    for piece in parts(whole, list(range(50, len(whole), 50))):
        join.push(piece)
        found += pulled(join)
        now = int(piece.times[-1])
        join.watermark(now - 2000, now - 2000)
    assert Counter(found) == defined(one, whole)
    assert sum(held.tuples for held in join.held()) > 1500
    assert join.report()["comparisons"] < 5 * len(found)
    join.close()


def sparse(on: str, count: int, seed: int) -> Tuples:
    """Return arrivals of both sides in turn, a tick apart, whose values are spread widely."""
    rng = np.random.default_rng(seed)
    sides = np.tile(np.array([0, 1], np.uint8), count // 2)
    encoded = []
    for mark, (side, schema) in enumerate((("r", R), ("s", S))):
        columns = [
            pa.array(rng.integers(-(2**15), 2**15, count // 2), field.type) for field in schema
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        records = SideEncoder(query(on).lowering.side(side), Dictionary(), side=side).encode(batch)
        records["time"] = 2 * np.arange(count // 2) + mark
        encoded.append(records)
    return Tuples(sides, *encoded)


def numbers(join: Engine) -> list[np.ndarray]:
    """Return all pairs that are there, as numbers."""
    found = []
    while (part := join.pull()) is not None:
        found.append(part.r_id.astype(np.int64) << 32 | part.s_id)
    return found


@pytest.mark.parametrize("engine", ["bisort", "rap", "wib"])
@pytest.mark.parametrize("on", ["r.x BETWEEN s.a AND s.a + 1", PREDICATES["two bands"]])
def test_small_subwindows_are_put_together_with_what_they_keep_aside(engine, on):
    """When subwindows are to be larger, because the window has grown."""
    count, size = 40_000, 500
    kept = Window("time", 30_000)
    one = plan(on, kept, kept)
    rng = np.random.default_rng(6)
    delays = np.where(rng.random(count) < 0.1, rng.integers(0, 20_000, count), 0)
    ordered = sparse(on, count, 6)
    whole = disordered(ordered, delays)
    join = opened(one, engine, subwindows=400)
    other = choose(one, "bisort").open(one)
    assert join is not None
    found, expected, most = [], [], 0
    for number, piece in enumerate(parts(whole, list(range(size, count, size)))):
        if number == 50:
            assert join.report()["aside_r"] > 100
            join._library.eddyline_join_subwindows(join._handle, 20)
        join.push(piece)
        found += numbers(join)
        most = max(most, join.report()["subwindows_r"])
    for piece in parts(ordered, list(range(size, count, size))):
        other.push(piece)
        expected += numbers(other)
    assert most > 3 * join.report()["subwindows_r"]
    assert np.array_equal(np.sort(np.concatenate(found)), np.sort(np.concatenate(expected)))
    join.close()
    other.close()


def test_times_at_both_ends_of_the_clock():
    on = BAND
    whole = tuples(on, "rs" * 40, 3)
    ends = np.array([EARLIEST, EARLIEST + 1, -1, 0, 1, LATEST - 1, LATEST], np.int64)
    rng = np.random.default_rng(1)
    for records in (whole.r, whole.s):
        records["time"] = rng.choice(ends, len(records))
    for size in (0, 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1):
        kept = Window("time", size)
        one = plan(on, kept, kept)
        join = opened(one, "bisort", subwindows=MANY)
        assert join is not None
        found, seen = [], 0
        for piece in parts(whole, [3, 10, 11, 50]):
            join.push(piece)
            found += pulled(join)
            seen += len(piece)
            join.watermark(*watermarks(whole, seen))
        join.close()
        assert Counter(found) == defined(one, in_time(whole))


def test_a_plan_that_needs_an_order_is_refused():
    timed, rows = Window("time", 5), Window("rows", 5)
    for one in (
        plan(BAND, rows, timed),
        plan(BAND, timed, rows),
        replace(plan(BAND, timed, timed), order=Order("outer")),
    ):
        join = choose(one, "bisort").open(one)
        assert isinstance(join, IndexedJoin)
        assert not join.accept_late()
        join.close()


def test_windows_are_empty_after_a_flush():
    kept = Window("time", 10)
    one = plan(BAND, kept, kept)
    whole = tuples(BAND, "rs" * 100, 2)
    join = opened(one, "auto", subwindows=MANY)
    assert join is not None
    for _ in range(2):
        join.push(whole)
        join.watermark(LATEST, LATEST)
        assert Counter(pulled(join)) == defined(one, whole)
        join.flush()
    join.close()
