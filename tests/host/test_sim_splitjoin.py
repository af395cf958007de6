"""The simulated SplitJoin device: order from the gateware, cores that fail, queries that change."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eddyline
from eddyline.device import Tuples, joined, sim_splitjoin, simulated
from eddyline.device.cpu import CpuDevice
from eddyline.device.reference import ReferenceDevice
from eddyline.device.sim_splitjoin import SplitJoinDevice
from eddyline.errors import DeviceError
from eddyline.io.source import ArrowSource
from eddyline.plan import Compare, Layout, Order, Plan, Window, Word
from eddyline.query import Query
from eddyline.query.window import rows
from eddyline.session import Session
from eddyline_hw.splitjoin.precision import Precision
from eddyline_sim.simulation import Simulation, SimulationStuck

CORES = 3
WORD = Layout((Word("w0", 8, False, "x"),), ())
ORDERS = [
    Order("none"),
    *(Order(kind, every) for kind in ("outer", "inner") for every in (0, 1, 3, 7)),
    Order("inner", 6),
    Order("inner", 1 << 20),
]


def plan(window_r=6, window_s=6, order=ORDERS[0]):
    windows = Window("rows", window_r), Window("rows", window_s)
    return Plan(WORD, WORD, Compare(0, "eq", 0), *windows, order, False)


def tuples(arrivals, *, first=(0, 0)):
    """Return tuples of ``(side, value)``, with ids that count each side's from ``first`` on."""
    sides = np.array([side for side, _ in arrivals], np.uint8)
    records = []
    for number in (0, 1):
        values = [value for side, value in arrivals if side == number]
        one = np.zeros(len(values), np.dtype(WORD.fields))
        one["id"], one["valid"], one["w0"] = first[number] + np.arange(len(values)), 1, values
        records.append(one)
    return Tuples(sides, *records)


def alternating(count, values=3):
    return [(i % 2, i // 2 % values) for i in range(count)]


def pulled(device, parts):
    while not (results := device.pull()).nothing:
        parts.append(results)
    return results


def run(device, arrivals, pieces=1 << 16):
    """Push pieces and pull behind each of them; return all results."""
    parts, first = [], [0, 0]
    for begin in range(0, len(arrivals), pieces):
        piece = arrivals[begin : begin + pieces]
        device.push(tuples(piece, first=first))
        for side, _ in piece:
            first[side] += 1
        assert pulled(device, parts).closed % max(len(arrivals), 1) in (0, begin + len(piece))
    parts.append(device.flush())
    return joined(parts, parts[-1].closed)


def pairs_of(results):
    return list(zip(results.r_id.tolist(), results.s_id.tolist(), strict=True))


def groups_of(results):
    cuts = [0, *results.stars.tolist()]
    pairs = pairs_of(results)
    return [sorted(pairs[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)]


def check(found, right, order):
    """Compare with the reference as exactly as the order promises."""
    assert sorted(pairs_of(found)) == sorted(pairs_of(right))
    assert found.closed == right.closed
    if order.kind != "none":
        assert found.stars.tolist() == right.stars.tolist()
        assert groups_of(found) == groups_of(right)
    if order.kind == "inner":
        assert pairs_of(found) == pairs_of(right)


def right_results(wanted, arrivals):
    with ReferenceDevice() as reference:
        reference.configure(wanted)
        return run(reference, arrivals)


@pytest.fixture
def device():
    with SplitJoinDevice(cores=CORES, window=8, comparators=2) as one:
        yield one


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


def model(arrivals, window, off):
    """Return pairs and lost rows; ``off`` says of each core before which arrival it was lost."""
    held, pairs, lost, count = ([], []), [], set(), [0, 0]
    for place, (side, value) in enumerate(arrivals):
        for core, moment in off.items():
            if place == moment:
                inside = [(s, n) for s in (0, 1) for n, _ in held[s][-window:]]
                lost |= {(s, n) for s, n in inside if n % CORES == core - 1}
        for partner, other in held[1 - side][-window:]:
            if other == value and (1 - side, partner) not in lost:
                pairs.append((count[0], partner) if side == 0 else (partner, count[1]))
        held[side].append((count[side], value))
        if off.get(count[side] % CORES + 1, 1 << 30) <= place:
            lost.add((side, count[side]))
        count[side] += 1
    return pairs, len(lost)


@pytest.mark.parametrize(
    "order", [Order("none"), Order("outer"), Order("outer", 4), Order("inner")]
)
@pytest.mark.parametrize("off", [{2: 25}, {1: 0}, {3: 13, 1: 30}])
def test_only_pairs_of_rows_on_a_lost_core_are_missing(device, order, off):
    arrivals = [(int(i * 7 % 5 < 2), i % 2) for i in range(60)]
    device.configure(plan(7, 7, order))
    parts, begin, first = [], 0, [0, 0]
    for core, moment in [*sorted(off.items(), key=lambda one: one[1]), (None, 60)]:
        device.push(tuples(arrivals[begin:moment], first=first))
        for side, _ in arrivals[begin:moment]:
            first[side] += 1
        if core:
            device.disable(core)  # what was pushed before is still joined with it
            device.disable(core)
        begin = moment
    pulled(device, parts)
    parts.append(device.flush())
    found = joined(parts, parts[-1].closed)
    pairs, lost = model(arrivals, 7, off)
    assert sorted(pairs_of(found)) == sorted(pairs)
    assert order.kind != "inner" or pairs_of(found) == pairs
    assert found.closed == 60
    assert device.counters()["lost_rows"] == lost


def test_only_young_rows_of_a_window_of_time_are_lost_with_a_core(device):
    """Time stands still for three arrivals, and then makes a leap that empties the windows."""
    age, off_at, core = 6, 31, 2
    order = Order("inner")
    when = [i // 3 * 2 + 20 * (i >= 28) for i in range(60)]
    arrivals = [(int(i * 7 % 5 < 2), i % 2) for i in range(60)]
    windows = Window("time", age), Window("time", age)
    device.configure(Plan(WORD, WORD, Compare(0, "eq", 0), *windows, order, True))
    parts, first = [], [0, 0]
    for begin, end in ((0, off_at), (off_at, 60)):
        piece = tuples(arrivals[begin:end], first=first)
        for side, records in enumerate((piece.r, piece.s)):
            records["time"] = np.array(when[begin:end])[piece.sides == side]
            first[side] += len(records)
        device.push(piece)
        pulled(device, parts)
        if begin == 0:
            device.disable(core)
    parts.append(device.flush())
    held, pairs, lost = ([], []), [], set()
    for i, (side, value) in enumerate(arrivals):
        if i == off_at:
            for s in (0, 1):
                young = [n for n, t, _ in held[s] if t >= when[i - 1] - age]
                lost |= {(s, n) for n in young if n % CORES == core - 1}
        for n, t, other in held[1 - side]:
            if t >= when[i] - age and other == value and (1 - side, n) not in lost:
                own = len(held[side])
                pairs.append((own, n) if side == 0 else (n, own))
        if i >= off_at and len(held[side]) % CORES == core - 1:
            lost.add((side, len(held[side])))
        held[side].append((len(held[side]), when[i], value))
    assert pairs_of(joined(parts, parts[-1].closed)) == pairs
    assert device.counters()["lost_rows"] == len(lost)
    assert len(lost) < 15  # of 20 that the core was to keep, some had left


def test_the_gateware_misses_the_same_rows(device):
    device.configure(plan())
    device.disable(2)
    run(device, alternating(41))
    unstored = 0
    for core in range(CORES):
        device._simulation.set("selected", core)
        device._simulation.step(4)
        unstored += sum(device._simulation.get(f"unstored_{side}") for side in "rs")
    assert device.counters()["lost_rows"] == unstored == 14


def test_a_core_is_broken_from_the_start_or_whole_again():
    arrivals = alternating(40, 1)
    with SplitJoinDevice(cores=CORES, window=8, comparators=2, broken=3) as device:
        for _ in range(2):
            device.configure(plan(7, 7))
            device.disable(1)
            pairs, lost = model(arrivals, 7, {1: 0, 3: 0})
            assert sorted(pairs_of(run(device, arrivals))) == sorted(pairs)
            assert device.counters()["lost_rows"] == lost
            with pytest.raises(ValueError, match="core 2 is the last one that works"):
                device.disable(2)
    with SplitJoinDevice(cores=CORES, window=8, comparators=2) as device:
        with pytest.raises(DeviceError, match="behind configure"):
            device.disable(1)
        device.configure(plan(7, 7))
        with pytest.raises(ValueError, match="there is no core 4: they are 1 to 3"):
            device.disable(4)
        check(run(device, arrivals), right_results(plan(7, 7), arrivals), ORDERS[0])
        assert device.counters()["lost_rows"] == 0


def test_python_is_warned_of_lost_rows():
    sides = (pa.table({"x": np.arange(40) % 3}), pa.table({"a": np.arange(40) % 3}))
    asked = {"on": "r.x = s.a", "window": rows(8)}
    # Every third row of each side is the second core's.
    with pytest.warns(UserWarning, match=r"^26 rows were lost with cores that are off"):
        eddyline.join(*sides, device="sim:splitjoin?cores=3&window=8&broken=2", **asked).read_all()


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


def test_an_answer_that_never_comes_is_not_waited_for(device, monkeypatch):
    monkeypatch.setattr(sim_splitjoin, "PATIENCE", 500)
    device.configure(plan())
    device.push(tuples(alternating(9)))
    monkeypatch.setattr(device, "_answered", lambda out: False)
    with pytest.raises(SimulationStuck, match="no answer to a star"):
        device.pull()
