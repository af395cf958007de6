# amaranth: UnusedElaboratable=no
"""Every window behaves as a list of the last tuples."""

from collections import deque

import pytest
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline_hw.window import RingWindow, ShiftWindow, kind_for, make_window

BUILDS = [
    (kind, slots, lanes)
    for kind, slots, lanes in [
        ("shift", 1, 1), ("shift", 4, 4), ("shift", 5, 2), ("shift", 6, 1),
        ("lutram", 3, 1), ("lutram", 7, 2), ("lutram", 8, 3), ("lutram", 5, 1),
        ("bram", 3, 1), ("bram", 9, 3), ("bram", 8, 2),
    ]
]  # fmt: skip
# A push (valid, value), a clear, or cycles of rest in which the whole window is read.
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.booleans(), st.integers(0, 255)),
        st.just(("clear", False, 0)),
        st.just(("read", False, 0)),
    ),
    max_size=25,
)


def play(dut, used, actions):
    """Drive a window; return what left at each push, and the valid entries at each read."""
    left, seen = [], []

    async def drive(ctx):
        ctx.set(dut.last.row, (used - 1) // dut.width)
        ctx.set(dut.last.lane, (used - 1) % dut.width)
        await ctx.tick()
        await ctx.tick()
        for action, valid, value in actions:
            if action == "push":
                ctx.set(dut.push, 1)
                ctx.set(dut.entering.valid, valid)
                ctx.set(dut.entering.entry, value)
                left.append((ctx.get(dut.leaving.valid), ctx.get(dut.leaving.entry)))
                await ctx.tick()
                ctx.set(dut.push, 0)
                for _ in range(dut.interval - 1):
                    await ctx.tick()
            elif action == "clear":
                ctx.set(dut.clear, 1)
                await ctx.tick()
                ctx.set(dut.clear, 0)
                await ctx.tick()
            else:
                entries = []
                for cycle in range(dut.rows + dut.latency):
                    ctx.set(dut.row, min(cycle, dut.rows - 1))
                    if cycle >= dut.latency:
                        entries += [
                            ctx.get(lane.entry) for lane in dut.lanes if ctx.get(lane.valid)
                        ]
                    await ctx.tick()
                seen.append(sorted(entries))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return left, seen


def expected(used, actions):
    window = deque([(0, 0)] * used, used)
    left, seen = [], []
    for action, valid, value in actions:
        if action == "push":
            left.append(window[0])
            window.append((int(valid), value))
        elif action == "clear":
            window.extend([(0, 0)] * used)
        else:
            seen.append(sorted(value for valid, value in window if valid))
    return left, seen


def check(dut, used, actions):
    (left, seen), (right, held) = play(dut, used, actions), expected(used, actions)
    assert [valid for valid, _ in left] == [valid for valid, _ in right]
    assert [one for one in left if one[0]] == [one for one in right if one[0]]
    assert seen == held


@pytest.mark.parametrize(("kind", "slots", "lanes"), BUILDS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_window_holds_the_last_tuples(kind, slots, lanes, data):
    used = data.draw(st.integers(1, slots))
    actions = [*data.draw(ACTIONS), ("read", False, 0)]
    check(make_window(8, slots=slots, lanes=lanes, kind=kind), used, actions)


def test_a_window_set_one_too_small_is_noticed():
    pushes = [("push", True, value) for value in range(9)]
    narrow = ShiftWindow(8, slots=4, lanes=2)
    assert play(narrow, 3, pushes)[0] != expected(4, pushes)[0]


def test_a_wider_window_after_a_narrow_one_shows_nothing_old():
    dut = RingWindow(8, slots=6, lanes=2)
    seen = []

    async def drive(ctx):
        for used in (6, 3):
            ctx.set(dut.last.row, (used - 1) // 2)
            ctx.set(dut.last.lane, (used - 1) % 2)
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            await ctx.tick()
            for value in range(used):
                ctx.set(dut.push, 1)
                ctx.set(dut.entering.valid, 1)
                ctx.set(dut.entering.entry, 10 * used + value)
                await ctx.tick()
                ctx.set(dut.push, 0)
                for _ in range(dut.interval - 1):
                    await ctx.tick()
        for row in range(3):
            ctx.set(dut.row, row)
            for _ in range(dut.latency):
                await ctx.tick()
            seen.extend(ctx.get(lane.entry) for lane in dut.lanes if ctx.get(lane.valid))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    assert sorted(seen) == [30, 31, 32]


@pytest.mark.parametrize(
    ("slots", "lanes", "kind"),
    [
        (4, 4, "shift"),
        (4, 2, "shift"),
        (16, 2, "lutram"),
        (64, 8, "lutram"),
        (64, 1, "lutram"),
        (512, 2, "bram"),
    ],
)
def test_the_window_suits_its_size(slots, lanes, kind):
    assert kind_for(slots, lanes) == kind


def test_errors_say_what_is_possible():
    with pytest.raises(ValueError, match="a ring in bram needs at least 3 rows"):
        RingWindow(8, slots=4, lanes=2, memory="bram")
    with pytest.raises(ValueError, match="no window kind 'sram'"):
        make_window(8, slots=4, lanes=2, kind="sram")
    with pytest.raises(ValueError, match="a window of 4 slots cannot have 5 lanes"):
        ShiftWindow(8, slots=4, lanes=5)
