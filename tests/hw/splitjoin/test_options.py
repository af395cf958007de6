"""Windows, order and cores that change while the operator runs."""

from collections import Counter
from random import Random

import pytest
from amaranth import Module

from eddyline_hw.splitjoin.core import SplitCore
from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.splitjoin.precision import Precision, order_settings
from tests.hw.handshake.joins import band_plan, message, random_arrivals
from tests.hw.splitjoin.model import check, expected_parts
from tests.hw.splitjoin.play import FLUSH, STAR, Set, play

NONE, OUTER, INNER = Precision


def messages_of(arrivals):
    return [message(*one) for one in arrivals]


@pytest.mark.parametrize("stall", [(), (0, 0, 5)])
def test_order_may_change_between_stars(stall):
    plan = band_plan()
    windows = {"r": 7, "s": 10}
    dut = SplitJoin(plan, cores=3, window_r=7, window_s=10, lanes=2, fan_in=2)
    orders = [(INNER, 1), (NONE, 1), (OUTER, 1), (OUTER, 4), (INNER, 2), (INNER, 1), (OUTER, 3)]
    arrivals = random_arrivals(18, seed=3, values=4)
    messages = []
    for mode, every in orders:
        messages += [Set(order_settings(mode, every)), *messages_of(arrivals), FLUSH]
    epochs, _, _ = play(dut, dut.settings(7, 10), messages, stall=stall)
    for (mode, every), results in zip(orders, epochs, strict=True):
        parts, rest = expected_parts(plan, arrivals, windows, cores=3, mode=mode, every=every)
        check(results, parts, rest, exact=(mode, every) == (INNER, 1))


def test_order_may_change_among_tuples():
    """With no star in between: pairs are complete, and every arrival that asks for it is closed."""
    plan = band_plan()
    dut = SplitJoin(plan, cores=3, window_r=7, window_s=10, lanes=2, fan_in=2)
    orders = [NONE, INNER, OUTER, INNER, NONE, OUTER, NONE]
    arrivals = random_arrivals(7 * 36, seed=3, values=12)
    messages = []
    for number, mode in enumerate(orders):
        messages += [
            Set(order_settings(mode, 1), wait=False),
            *messages_of(arrivals[36 * number : 36 * number + 36]),
        ]
    epochs, _, _ = play(dut, dut.settings(7, 10), [*messages, STAR], stall=(0, 0, 3))
    (results,) = epochs
    _, right = expected_parts(plan, arrivals, {"r": 7, "s": 10}, cores=3)
    pairs = [(one.r_id, one.s_id) for one in results if not one.star]
    assert sorted(pairs) == sorted(right)
    # A change also takes hold of tuples that wait behind the input: leave out those near it.
    closed = [(one.side, one.s_id if one.side else one.r_id) for one in results if one.final]
    for number, mode in enumerate(orders):
        for side, place, _ in arrivals[36 * number + 1 : 36 * number + 20]:
            assert ((int(side == "s"), place) in closed) == (mode is not NONE)


@pytest.mark.parametrize("seed", range(4))
def test_stars_name_arrivals_in_order_though_a_change_cuts_a_group(seed):
    """A star closes all before it: whatever is under way when the order changes."""
    plan = band_plan()
    windows = {"r": 4, "s": 5}
    dut = SplitJoin(plan, cores=2, window_r=4, window_s=5)
    random = Random(seed)
    arrivals = random_arrivals(160, seed=seed, values=3)
    orders = [(NONE, 1), (INNER, 1), (INNER, 2), (OUTER, 1), (OUTER, 3), (OUTER, 8)]
    messages, left = [], messages_of(arrivals)
    while left:
        count = random.randrange(1, 7)
        messages += [Set(order_settings(*random.choice(orders)), wait=False), *left[:count]]
        left = left[count:]
    messages += [Set(order_settings(OUTER, 1), wait=False), STAR]
    idle = [random.choice((0, 0, 5)) for _ in arrivals]
    (results,), _, _ = play(dut, dut.settings(4, 5), messages, idle=idle)
    places = {(side, number): place for place, (side, number, _) in enumerate(arrivals)}
    final = [
        places["rs"[one.side], one.s_id if one.side else one.r_id] for one in results if one.final
    ]
    assert len(final) > 20
    assert final == sorted(set(final))
    singles, _ = expected_parts(plan, arrivals, windows, cores=2, mode=OUTER)
    right = [sorted(pairs) for pairs, _ in singles]
    parts, closed = [[]], 0
    for one in results:
        if one.final:
            due = sorted(sum(right[closed : final[len(parts) - 1] + 1], []))
            closed = final[len(parts) - 1] + 1
            # Without order, pairs of arrivals behind it may come before a star, but none is late.
            assert not Counter(due) - Counter(sum(parts, [])), f"pairs are late for {one}"
            parts.append([])
        elif not one.star:
            parts[-1].append((one.r_id, one.s_id))
    assert sorted(sum(parts, [])) == sorted(sum(right, []))


@pytest.mark.parametrize(
    ("mode", "every", "side"),
    [(NONE, 1, "r"), (OUTER, 1, "s"), (OUTER, 3, "s"), (INNER, 1, "r")],
)
def test_sides_may_come_out_separately(mode, every, side):
    plan = band_plan()
    dut = SplitJoin(plan, cores=3, window_r=6, window_s=7, lanes=2, fan_in=2, separate=True)
    arrivals = random_arrivals(30, seed=4, values=3)
    values = dut.settings(6, 7, order_mode=mode, every=every)
    port = getattr(dut, f"o_{side}")
    (results,), _, _ = play(dut, values, [*messages_of(arrivals), FLUSH], port=port)
    windows = {"r": 6, "s": 7}
    parts, rest = expected_parts(plan, arrivals, windows, cores=3, mode=mode, every=every)
    singles, _ = expected_parts(plan, arrivals, windows, cores=3, mode=OUTER)
    mine = {pair for pairs, (_, owner, _) in singles if owner == side for pair in pairs}
    parts = [
        ([pair for pair in pairs if pair in mine], star)
        for pairs, star in parts
        if (mode, every) == (OUTER, 3) or star[1] == side
    ]
    check(results, parts, [pair for pair in rest if pair in mine], exact=mode is INNER)


@pytest.mark.parametrize(
    ("mode", "every", "off"),
    [(NONE, 1, {1}), (OUTER, 1, {0}), (OUTER, 1, {0, 1, 2, 4}), (INNER, 1, {3, 4})],
)
def test_only_the_pairs_of_a_disabled_core_are_missing(mode, every, off):
    plan = band_plan()
    cores = 5
    dut = SplitJoin(plan, cores=cores, window_r=12, window_s=9, lanes=2, fan_in=2, fan_out=2)
    arrivals = random_arrivals(50, seed=6, values=3)
    before, after = arrivals[:21], arrivals[21:]
    mask = sum(1 << core for core in off)
    messages = [
        *messages_of(before),
        STAR,
        Set(disabled=mask),
        *messages_of(after[:1]),
        Set(disabled=0, wait=False),  # stays off
        *messages_of(after[1:]),
        STAR,
    ]
    values = dut.settings(12, 9, order_mode=mode, every=every)
    idle = [0] * 22 + [3]
    (first, second), _, outputs = play(dut, values, messages, idle=idle)
    windows = {"r": 12, "s": 9}
    lost = {(side, number) for side, number, _ in arrivals if number % cores in off}
    options = {"cores": cores, "mode": mode, "every": every}
    parts, rest = expected_parts(plan, before, windows, **options)
    check(first, parts, rest, exact=mode is INNER)
    whole_parts, whole_rest = expected_parts(plan, arrivals, windows, lost=lost, **options)
    _, lost_rest = expected_parts(plan, before, windows, lost=lost, **options)
    check(second, whole_parts[len(parts) :], whole_rest[len(lost_rest) :], exact=mode is INNER)
    for side in "rs":
        unstored = [
            sum(1 for one, number, _ in after if one == side and number % cores == core)
            for core in range(cores)
        ]
        assert outputs[f"unstored_{side}"] == [
            count if core in off else 0 for core, count in enumerate(unstored)
        ]


class Hung(SplitCore):
    """A core that takes nothing and offers garbage."""

    def elaborate(self, platform):
        m = Module()
        m.submodules += [*self.regions.values(), self.queue, self.sequencer, self.matcher]
        m.d.comb += [self.sends.eq(3), self.item.eq(5)]
        return m


@pytest.mark.parametrize("mode", [NONE, INNER])
def test_a_core_that_hangs_holds_up_nobody_once_it_is_disabled(mode):
    plan = band_plan()
    dut = SplitJoin(plan, cores=3, window_r=9, window_s=9, fan_in=2)
    dut.core[1].__class__ = Hung
    arrivals = random_arrivals(40, seed=8, values=3)
    values = dut.settings(9, 9, order_mode=mode) | {"disabled": 0b010}
    (results,), _, _ = play(dut, values, [*messages_of(arrivals), FLUSH])
    lost = {(side, number) for side, number, _ in arrivals if number % 3 == 1}
    parts, rest = expected_parts(plan, arrivals, {"r": 9, "s": 9}, cores=3, mode=mode, lost=lost)
    check(results, parts, rest, exact=mode is INNER)


def test_a_key_comes_along():
    plan = band_plan()
    arrivals = random_arrivals(25, seed=7, values=4)
    keys = {number: words["x"] for side, number, words in arrivals if side == "r"}
    dut = SplitJoin(plan, cores=2, window_r=6, window_s=6, lanes=2, carried=["x"])
    (results,), _, _ = play(dut, dut.settings(6, 6), [*messages_of(arrivals), FLUSH])
    assert results
    assert all(one.x == keys[one.r_id] for one in results)


@pytest.mark.parametrize(("count", "overflow"), [(8, 0), (20, 1)])
def test_nothing_may_leave_a_window_without_an_end(count, overflow):
    plan = band_plan()
    arrivals = random_arrivals(count, seed=1)
    dut = SplitJoin(plan, cores=2, window_r=8, window_s=8)
    values = dut.settings(8, 8, keep_r=True, keep_s=True)
    _, _, outputs = play(dut, values, [*messages_of(arrivals), FLUSH])
    assert outputs["overflow"] == overflow


def test_nothing_is_lost_when_everything_matches_and_the_output_stalls():
    plan = band_plan()
    arrivals = random_arrivals(200, seed=2, values=1)
    dut = SplitJoin(plan, cores=2, window_r=16, window_s=16, lanes=4)
    values = dut.settings(16, 16, order_mode=OUTER)
    messages = [*messages_of(arrivals), FLUSH]
    (results,), _, outputs = play(dut, values, messages, stall=(1200, *[0] * 9000), limit=12000)
    parts, rest = expected_parts(plan, arrivals, {"r": 16, "s": 16}, cores=2, mode=OUTER)
    check(results, parts, rest)
    assert outputs["waited"] > 500
    assert not outputs["overflow"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mode": INNER, "every": 3}, "a power of two, not 3"),
        ({"mode": OUTER, "every": 0}, "every 0 is not within 1 and 65535"),
    ],
)
def test_impossible_orders_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        order_settings(**options)


@pytest.mark.parametrize("crowded", [True, False])
def test_order_is_coarser_while_the_input_waits(crowded):
    """From inner order over parts of an arrival to groups, where results are in the way."""
    plan = band_plan()
    dut = SplitJoin(plan, cores=1, window_r=2, window_s=2)
    arrivals = random_arrivals(1800, seed=1, values=2 if crowded else 12)
    values = dut.settings(2, 2, order_mode=OUTER) | {"adaptive": 1}
    (results,), _, outputs = play(dut, values, [*messages_of(arrivals), STAR])
    # A tuple takes 3 cycles and then 2, so the input waits nearly all of 4 * 1024 cycles: behind
    # inner order with stars of 1, 2 and 4 intervals come groups of 1, and of 2 if a tuple's pairs
    # and its star take more cycles than its scan.
    assert (outputs["interval"], outputs["inner_interval"]) == (2 if crowded else 1, 0)
    parts, rest = expected_parts(plan, arrivals, {"r": 2, "s": 2}, cores=1, mode=OUTER)
    pairs = [(one.r_id, one.s_id) for one in results if not one.star]
    right = [pair for part, _ in parts for pair in part] + rest
    assert sorted(pairs) == sorted(right)
    numbers = {(side, number): place for place, (side, number, _) in enumerate(arrivals)}
    stars = [("rs"[one.side], one.s_id if one.side else one.r_id) for one in results if one.final]
    closed = [numbers[star] for star in stars]
    sizes = [later - earlier for earlier, later in zip(closed, closed[1:], strict=False)]
    assert sizes == sorted(sizes)
    assert set(sizes) == ({1, 2} if crowded else {1})
    # Three intervals, so three stars, then two, then one for each arrival.
    of_each = Counter((one.side, one.s_id if one.side else one.r_id) for one in results if one.star)
    seen = list(dict.fromkeys(of_each.values()))
    assert seen == [3, 2, 1]
    exact = sum(
        len(part) for (part, _), stars in zip(parts, of_each.values(), strict=False) if stars == 3
    )
    assert pairs[:exact] == right[:exact]
