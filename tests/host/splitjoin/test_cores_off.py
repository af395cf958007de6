"""Cores of a simulated SplitJoin that are off: what they held is missing, and nothing else."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.device import joined
from eddyline.device.sim_splitjoin import SplitJoinDevice
from eddyline.errors import DeviceError
from eddyline.plan import Compare, Order, Plan, Window
from eddyline.query.window import rows
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
    unstored = []
    for core in range(CORES):
        device._simulation.set("selected", core)
        device._simulation.step(4)
        unstored.append(sum(device._simulation.get(f"unstored_{side}") for side in "rs"))
    assert unstored == [0, 14, 0]
    assert device.counters()["lost_rows"] == 14


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
