"""The simulated SplitJoin device: order from the gateware, long streams, queries that change."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eddyline.device import joined, sim_splitjoin, simulated
from eddyline.device.cpu import CpuDevice
from eddyline.device.reference import ReferenceDevice
from eddyline.device.sim_splitjoin import SplitJoinDevice
from eddyline.errors import DeviceError
from eddyline.io.source import ArrowSource
from eddyline.plan import Compare, Order, Plan, Window
from eddyline.query import Query
from eddyline.query.window import rows
from eddyline.session import Session
from eddyline_hw.splitjoin.precision import Precision
from eddyline_sim.simulation import Simulation, SimulationStuck
from tests.host.splitjoin.running import (
    CORES,
    ORDERS,
    WORD,
    alternating,
    check,
    pairs_of,
    plan,
    pulled,
    right_results,
    run,
    tuples,
)

ARRIVALS = st.one_of(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=60),
    st.lists(st.tuples(st.just(0), st.just(1)), max_size=10),
    st.lists(st.tuples(st.integers(0, 1), st.just(7)), max_size=60),
)


@settings(max_examples=150)
@given(
    arrivals=ARRIVALS,
    window_r=st.integers(1, 8),
    window_s=st.integers(1, 8),
    order=st.sampled_from(ORDERS),
    pieces=st.sampled_from([1, 2, 5, 1 << 16]),
)
@example(arrivals=[], window_r=1, window_s=8, order=Order("inner"), pieces=1)
@example(arrivals=alternating(40, 1), window_r=1, window_s=1, order=Order("outer", 7), pieces=2)
@example(arrivals=alternating(60, 1), window_r=7, window_s=8, order=Order("inner", 3), pieces=5)
def test_results_are_those_of_the_reference(arrivals, window_r, window_s, order, pieces):
    wanted = plan(window_r, window_s, order)
    with SplitJoinDevice(cores=CORES, window=8, comparators=2) as device:
        device.configure(wanted)
        for _ in range(2):
            right = right_results(wanted, arrivals)
            found = run(device, arrivals, pieces)
            assert found.closed in (right.closed, 2 * right.closed)
            check(joined([found], right.closed), right, order)
        assert device.flush().nothing
        assert device.counters()["tuples"] == 2 * len(arrivals)


@pytest.mark.parametrize(
    ("shape", "windows"),
    [
        ({"cores": 5, "window": 11, "fan_out": 2, "fan_in": 2}, (11, 4)),
        pytest.param(
            {"cores": 64, "window": 150, "fan_out": 4, "fan_in": 2}, (150, 67),
            marks=pytest.mark.slow,
        ),
        pytest.param({"cores": 32, "window": 8192}, (8192, 500), marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_trees_of_several_levels_keep_order_and_lose_only_what_a_core_held(shape, windows):
    rng = np.random.default_rng(1)
    few = shape["window"] // 8 + 2
    arrivals = list(
        zip(rng.integers(0, 2, 1500), rng.integers(0, min(few, 256), 1500), strict=True)
    )
    with SplitJoinDevice(**shape) as device:
        for order in (Order("none"), Order("outer"), Order("outer", 7), Order("inner")):
            device.configure(plan(*windows, order))
            check(run(device, arrivals), right_results(plan(*windows, order), arrivals), order)
        # Without a core, what it would have stored is missing and all else is there, in order.
        for core in (1, shape["cores"]):
            device.configure(plan(*windows, Order("inner")))
            device.disable(core)
            right = right_results(plan(*windows, Order("inner")), arrivals)
            assert pairs_of(run(device, arrivals)) == kept_without(
                core, shape["cores"], right, arrivals
            )


@pytest.mark.parametrize(
    ("cores", "window"), [(3, 24), pytest.param(64, 300, marks=pytest.mark.slow)]
)
def test_windows_of_time_in_every_order(cores, window):
    """About as many rows are young as there are places; at times few, and some rows are tied."""
    rng = np.random.default_rng(4)
    steps = rng.choice(
        [0, 0, 1, 1, 1, 2, window], 8 * window, p=[0.2] * 2 + [0.19] * 3 + [0.02, 0.01]
    )
    when = np.cumsum(steps)
    everyone = tuples(
        [(int(side), value % 5) for value, side in enumerate(rng.integers(0, 2, len(when)))]
    )
    for side, records in enumerate((everyone.r, everyone.s)):
        records["time"] = when[everyone.sides == side]
    windows = Window("time", window // 2), Window("time", window // 3)
    device = partial(SplitJoinDevice, cores=cores, window=window, comparators=2)
    for kind, every, precision in (
        ("none", 0, "query"), ("none", 0, "adaptive"), ("outer", 0, "query"), ("outer", 7, "query"),
        ("inner", 0, "query"), ("inner", 2 * cores, "query"),
    ):  # fmt: skip
        order = Order(kind, every)
        wanted = Plan(WORD, WORD, Compare(0, "eq", 0), *windows, order, True)
        with device(precision=precision) as one, ReferenceDevice() as reference:
            found = []
            for each in (one, reference):
                each.configure(wanted)
                each.push(everyone)
                parts = []
                pulled(each, parts)
                parts.append(each.flush())
                found.append(joined(parts, parts[-1].closed))
            check(*found, order)
            assert len(found[0].r_id) > len(when)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["outer", "inner"])
def test_large_windows_wrap_around_and_no_cycle_is_wasted(kind):
    """Compared with the cpu device, since all pairs of such windows take the reference minutes."""
    rng = np.random.default_rng(2)
    count, watched = 21_000, 2_000
    arrivals = list(zip(rng.integers(0, 2, count), rng.integers(0, 256, count), strict=True))
    wanted = plan(8192, 8000, Order(kind))
    first = [sum(side == one for side, _ in arrivals[:-watched]) for one in (0, 1)]
    parts = []
    with CpuDevice() as right, SplitJoinDevice(cores=32, window=8192) as device:
        for one in (right, device):
            one.configure(wanted)
        device.push(tuples(arrivals[:-watched]))
        pulled(device, parts)
        before = device.counters()["cycles"]
        device.push(tuples(arrivals[-watched:], first=first))
        found = len(parts)
        pulled(device, parts)
        cycles = device.counters()["cycles"] - before
        pairs = sum(len(part) for part in parts[found:])
        parts.append(device.flush())
        check(joined(parts, parts[-1].closed), run(right, arrivals), wanted.order)
    # Both windows are full: a tuple takes a cycle for each row of the other one. With strict inner
    # order that is also the number of its stars, less one, and there pairs and stars are the limit.
    work = sum(250 if side == 0 else 256 for side, _ in arrivals[-watched:])
    if kind == "inner":
        work += watched + pairs
    assert work <= cycles < work / 0.99


def kept_without(core, cores, right, arrivals):
    """Return pairs whose earlier row another core has: each side's rows are stored in turns."""
    places = [[i for i, (side, _) in enumerate(arrivals) if side == one] for one in (0, 1)]
    kept = []
    for r, s in pairs_of(right):
        earlier = r if places[0][r] < places[1][s] else s
        if earlier % cores != core - 1:
            kept.append((r, s))
    return kept


@pytest.mark.parametrize("order", [Order("outer", 100), Order("outer", 300), Order("inner")])
def test_a_long_stream_is_sent_in_slices(device, monkeypatch, order):
    monkeypatch.setattr(simulated, "MOST_PAIRS", 1)
    arrivals = alternating(1000)
    device.configure(plan(5, 8, order))
    found = run(device, arrivals, 700)
    check(found, right_results(plan(5, 8, order), arrivals), order)
    assert [len(side.held) for side in device._sides] == [0, 0]


def test_an_inner_order_that_leaves_more_open_takes_fewer_cycles():
    """A star for each partner of a core, and four comparators: four stars per row of a scan."""
    arrivals, cycles = alternating(1200, 255), {}
    for every in (0, 4, 64):
        order = Order("inner", every)
        with SplitJoinDevice(cores=2, window=32, comparators=4) as device:
            device.configure(plan(32, 32, order))
            check(run(device, arrivals), right_results(plan(32, 32, order), arrivals), order)
            counters = device.counters()
            cycles[every] = counters["cycles"] / len(arrivals)
            assert counters["inner_interval"] == max(every // 2, 1)
    # 16 slots in rows of 4, and one more; as many stars as slots, and one more.
    assert cycles[64] < 5.5 < 9 <= cycles[4] < 10 < 17 <= cycles[0] < 18.5


def test_groups_may_be_larger_than_the_gateware_counts(device, monkeypatch):
    monkeypatch.setattr(sim_splitjoin, "MOST_IN_GROUP", 4)
    order = Order("outer", 6)
    device.configure(plan(order=order))
    assert device._mode is Precision.NONE
    arrivals = alternating(50)
    check(run(device, arrivals, 7), right_results(plan(order=order), arrivals), order)
    assert device.counters()["interval"] == 6


def test_the_host_remembers_no_more_than_the_windows(device):
    device.configure(plan(3, 8, Order("inner")))
    for begin in range(0, 600, 100):
        device.push(tuples(alternating(100), first=(begin // 2, begin // 2)))
        pulled(device, [])
        assert [len(side.held) for side in device._sides] == [3, 8]


def test_sequence_numbers_wrap_around(device):
    wanted = plan(6, 7, Order("inner"))
    device.configure(wanted)
    for side in device._sides:
        side.base = 2**32 - 6
    device._sent = [2**32 - 6] * 2
    arrivals = alternating(40)
    check(run(device, arrivals, 3), right_results(wanted, arrivals), wanted.order)


def test_another_query_of_the_same_shape_runs_on_the_same_circuit(monkeypatch):
    """Constants are in the words, and windows are settings."""
    built = []
    right = Simulation.__init__
    monkeypatch.setattr(
        Simulation,
        "__init__",
        lambda self, *a, **k: built.append(k["name"]) or right(self, *a, **k),
    )
    schemas = pa.schema({"x": pa.int16()}), pa.schema({"a": pa.int16()})
    rng, values = np.random.default_rng(3), np.arange(-72, -52, dtype=np.int16)
    tables = [pa.table({name: rng.choice(values, 60)}) for name in "xa"]
    simulations = set()
    for width, window, literal in ((1, 8, -60), (3, 8, -60), (3, 2, -60), (9, 5, -70)):
        on = f"abs(r.x - s.a) <= {width} AND r.x <> {literal}"
        query = Query(*schemas, on, rows(window), rows(8), order=Order("inner"))
        found = []
        for device in (SplitJoinDevice(cores=2, window=8), ReferenceDevice()):
            sources = [[ArrowSource(one, name="side")] for one in tables]
            with device:
                found.append(pa.Table.from_batches(Session(query, *sources, device)))
                if device.name != "reference":
                    simulations.add(id(device._simulation))
        assert found[0].num_rows > 50
        assert found[0] == found[1]
    assert len(built) == 1
    assert len(simulations) == 1


def test_the_gateware_chooses_the_interval():
    arrivals = alternating(2400, 1)
    with SplitJoinDevice(cores=CORES, window=8, comparators=2, precision="adaptive") as device:
        device.configure(plan())
        assert device.counters()["inner_interval"] == 1
        found = run(device, arrivals)
        check(found, right_results(plan(), arrivals), ORDERS[0])
        counters = device.counters()
        assert counters["interval"] > 1
        assert counters["inner_interval"] == 0
        assert 3 < len(found.stars) < len(arrivals)


def test_a_star_that_is_missing_is_an_error(device, monkeypatch):
    device.configure(plan(order=Order("outer")))
    device.push(tuples(alternating(9)))
    right = SplitJoinDevice._until_answered

    def without_the_first_star(self, *arguments):
        out = right(self, *arguments)
        stars = sim_splitjoin.unpack(self._answers, out, "star")
        return np.delete(out, np.flatnonzero(stars)[0], axis=0)

    monkeypatch.setattr(SplitJoinDevice, "_until_answered", without_the_first_star)
    with pytest.raises(DeviceError, match="8 stars came for 9 groups of arrivals"):
        device.pull()


def test_a_star_that_names_another_arrival_is_an_error(monkeypatch):
    right = SplitJoinDevice._until_answered

    def with_stars_swapped(self, *arguments):
        out = right(self, *arguments)
        final = np.flatnonzero(sim_splitjoin.unpack(self._answers, out, "final"))
        out[final[:2]] = out[final[1::-1]]
        return out

    with SplitJoinDevice(cores=CORES, window=8, comparators=2, precision="adaptive") as device:
        device.configure(plan())
        device.push(tuples(alternating(9)))
        monkeypatch.setattr(SplitJoinDevice, "_until_answered", with_stars_swapped)
        with pytest.raises(DeviceError, match="stars came for some groups of arrivals"):
            device.pull()


def test_an_answer_that_never_comes_is_not_waited_for(device, monkeypatch):
    monkeypatch.setattr(sim_splitjoin, "PATIENCE", 500)
    device.configure(plan())
    device.push(tuples(alternating(9)))
    monkeypatch.setattr(device, "_answered", lambda out: False)
    with pytest.raises(SimulationStuck, match="no answer to a star"):
        device.pull()
