"""Windows of time: exact pairs, no rows read for nothing, no tuple lost without a word."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.plan import All, Layout, Order, Plan, Window, in_rows
from eddyline.reference import STAR as CLOSED
from eddyline.reference import Arrival, Join
from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.splitjoin.precision import Precision
from tests.hw.handshake.joins import message, timed_arrivals
from tests.hw.splitjoin.play import FLUSH, STAR, play


def bursts(count, *, ages, seed, pause):
    """Return a plan in which all young tuples match, messages and pairs, for bursts of arrivals."""
    rng = random.Random(seed)
    empty = Layout((), ())
    windows = {side: Window("time", age) for side, age in ages.items()}
    original = Plan(empty, empty, All(()), windows["r"], windows["s"], Order("none"), True, 10)
    join = Join(lambda r, s: True, windows["r"], windows["s"], Order("none"))
    messages, pairs, numbers, when = [], [], {"r": 0, "s": 0}, 0
    for _ in range(count):
        when += rng.choice([0, 0, 1, 1, pause])
        side = rng.choice("rs")
        words = {"when": when, "until": when + ages[side]}
        messages.append(message(side, numbers[side], words))
        pairs += join.arrive(Arrival(side, numbers[side], {}, when))
        numbers[side] += 1
    return in_rows(original, 1), messages, [pair for pair in pairs if pair != CLOSED]


@settings(max_examples=3, deadline=None)
@given(
    cores=st.integers(1, 3),
    lanes=st.integers(1, 3),
    capacity=st.integers(40, 48),
    age_r=st.integers(0, 12),
    age_s=st.integers(0, 12),
    pause=st.sampled_from([1, 5, 30]),
    memory=st.sampled_from(["lutram", "bram"]),
    mode=st.sampled_from(Precision),
    seed=st.integers(0, 99),
    idle=st.lists(st.integers(0, 30), max_size=30),
    stall=st.sampled_from([(), (0, 0, 7)]),
)
def test_pairs_are_exact(
    cores, lanes, capacity, age_r, age_s, pause, memory, mode, seed, idle, stall
):
    ages = {"r": age_r, "s": age_s}
    plan, messages, right = bursts(40, ages=ages, seed=seed, pause=pause)
    dut = SplitJoin(
        plan, cores=cores, window_r=capacity, window_s=capacity, lanes=lanes, memory=memory
    )
    values = dut.settings(capacity, capacity, order_mode=mode)
    (results,), _, outputs = play(dut, values, [*messages, FLUSH], idle=idle, stall=stall)
    assert not outputs["overflow"]
    pairs = [(one.r_id, one.s_id) for one in results if not one.star]
    if mode is Precision.INNER:
        assert pairs == right
    else:
        assert sorted(pairs) == sorted(right)


@pytest.mark.parametrize("memory", ["lutram", "bram"])
@pytest.mark.parametrize("sides", ["rssr", "srrs", "rssssr"])
def test_a_tuple_meets_one_that_came_in_the_cycle_before(sides, memory):
    """Between bursts all grow old, so that rows are few and tuples take a cycle or two."""
    plan, _, _ = timed_arrivals(0, age=3)
    dut = SplitJoin(plan, cores=1, window_r=12, window_s=12, memory=memory)
    messages, right, idle = [], [], []
    for burst in range(5):
        words = {"when": 100 * burst, "until": 100 * burst + 3}
        start = len(messages)
        burst_sides = [(side, start + place) for place, side in enumerate(sides)]
        messages += [message(side, number, words) for side, number in burst_sides]
        idle += [100, 100] + [0] * (len(sides) - 2)
        right += [
            (r, s) for one, r in burst_sides if one == "r" for other, s in burst_sides
            if other == "s"
        ]  # fmt: skip
    values = dut.settings(12, 12)
    (results,), _, _ = play(dut, values, [*messages, FLUSH], idle=idle)
    assert sorted((one.r_id, one.s_id) for one in results) == sorted(right)


def test_old_rows_are_not_read():
    plan, messages, right = timed_arrivals(90, age=3)
    dut = SplitJoin(plan, cores=2, window_r=64, window_s=64)
    idle = [8] * 90
    (results,), _, outputs = play(dut, dut.settings(64, 64), [*messages, STAR], idle=idle)
    assert sorted((one.r_id, one.s_id) for one in results) == sorted(right)
    assert max(outputs["busy"]) < 90 * 4  # of 32 rows


@pytest.mark.parametrize("cores", [1, 4])
def test_few_old_rows_are_read_by_tuples_right_behind_each_other(cores):
    """The oldest is looked for in the background, so it may lag by a row or two."""
    plan, messages, right = timed_arrivals(200, age=3)
    dut = SplitJoin(plan, cores=cores, window_r=64 * cores, window_s=64 * cores)
    (results,), _, outputs = play(dut, dut.settings(64 * cores, 64 * cores), [*messages, STAR])
    assert sorted((one.r_id, one.s_id) for one in results) == sorted(right)
    assert max(outputs["busy"]) < 200 * 3 + len(right) / cores  # of 64 rows for each


@pytest.mark.parametrize(("age", "overflow"), [(2, 0), (50, 1)])
@pytest.mark.parametrize("memory", ["lutram", "bram"])
def test_a_tuple_that_is_overwritten_young_is_an_overflow(age, overflow, memory):
    plan, messages, right = timed_arrivals(30, age=age)
    dut = SplitJoin(plan, cores=2, window_r=6, window_s=6, memory=memory)
    (results,), _, outputs = play(dut, dut.settings(6, 6), [*messages, FLUSH])
    assert outputs["overflow"] == overflow
    if not overflow:
        assert sorted((one.r_id, one.s_id) for one in results) == sorted(right)
