# amaranth: UnusedElaboratable=no
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline_hw.stream.crossing import AsyncFifo
from eddyline_hw.stream.fifo import Fifo
from tests.hw.bench import collect, feed, record, simulate

MEMORIES = ["lutram", "bram"]
GAPS = st.lists(st.integers(0, 4), max_size=20)


def run(dut, count, idle=(), stall=()):
    """Send ``count`` numbers through; return transfers into and out of the queue."""
    entered, left = [], []
    simulate(
        dut,
        partial(feed, port=dut.i, payloads=range(count), idle=idle),
        partial(collect, port=dut.o, count=count, into=[], stall=stall),
        watch=[
            partial(record, port=dut.i, into=entered),
            partial(record, port=dut.o, into=left),
        ],
    )
    return entered, left


@settings(max_examples=20, deadline=None)
@given(depth=st.integers(4, 7), count=st.integers(0, 20), idle=GAPS, stall=GAPS)
def test_order_is_kept_and_both_memories_behave_alike(depth, count, idle, stall):
    entered, left = run(Fifo(8, depth=depth), count, idle, stall)
    assert [payload for _, payload in left] == list(range(count))
    assert run(Fifo(8, depth=depth, memory="bram"), count, idle, stall) == (entered, left)


@pytest.mark.parametrize("depth", [4, 5, 8])
def test_a_payload_passes_every_cycle_two_cycles_late(depth):
    entered, left = run(Fifo(8, depth=depth), 30)
    assert [cycle for cycle, _ in entered] == list(range(30))
    assert [cycle for cycle, _ in left] == list(range(2, 32))


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("depth", [4, 5])
def test_a_full_queue_stalls_and_wraps_around(depth, memory):
    dut = Fifo(8, depth=depth, memory=memory)
    received = []

    async def fill_and_drain(ctx):
        for turn in range(1, 4):  # the places of the memory are used from another start each time
            for _ in range(depth + 4):
                await ctx.tick()
            assert not ctx.get(dut.i.ready)
            assert ctx.get(dut.level) == ctx.get(dut.peak) == depth - 1
            await collect(ctx, dut.o, depth, received)
            assert received == list(range(turn * depth))
        for _ in range(4):
            await ctx.tick()
        assert ctx.get(dut.level) == 0
        assert ctx.get(dut.peak) == depth - 1

    simulate(dut, partial(feed, port=dut.i, payloads=range(3 * depth)), fill_and_drain)


def test_a_full_queue_takes_a_payload_for_each_it_gives():
    entered, left = run(Fifo(8, depth=5), 40, stall=[20])
    assert [cycle for cycle, _ in left] == list(range(20, 60))
    assert [cycle for cycle, _ in entered][5:] == list(range(23, 58))


@settings(max_examples=20, deadline=None)
@given(
    ratio=st.floats(0.2, 5),
    depth=st.integers(2, 9),
    count=st.integers(0, 20),
    idle=GAPS,
    stall=GAPS,
)
def test_order_is_kept_between_two_clocks(ratio, depth, count, idle, stall):
    dut = AsyncFifo(8, depth=depth, o_domain="merge")
    received = []
    simulate(
        dut,
        partial(feed, port=dut.i, payloads=range(count), idle=idle),
        partial(collect, port=dut.o, count=count, into=received, stall=stall, domain="merge"),
        clocks={"sync": 1e-6, "merge": ratio * 1e-6},
        domains={"o": "merge"},
    )
    assert received == list(range(count))


def test_a_queue_between_clocks_keeps_up_with_the_slower_one():
    dut = AsyncFifo(8, depth=8, o_domain="merge")
    left = []
    simulate(
        dut,
        partial(feed, port=dut.i, payloads=range(40)),
        partial(collect, port=dut.o, count=40, into=[], domain="merge"),
        watch=[partial(record, port=dut.o, into=left, domain="merge")],
        clocks={"sync": 1e-6, "merge": 1.3e-6},
        domains={"o": "merge"},
    )
    first = left[0][0]
    assert [cycle for cycle, _ in left] == list(range(first, first + 40))


def test_a_queue_between_clocks_stalls_when_full():
    dut = AsyncFifo(8, depth=3, o_domain="merge")
    entered = []

    async def wait(ctx):
        for _ in range(30):
            await ctx.tick()
        assert len(entered) == dut.depth == 4
        await collect(ctx, dut.o, 9, [], domain="merge")

    simulate(
        dut,
        partial(feed, port=dut.i, payloads=range(9)),
        wait,
        watch=[partial(record, port=dut.i, into=entered)],
        clocks={"sync": 1e-6, "merge": 0.7e-6},
        domains={"o": "merge"},
    )


def test_impossible_queues_are_refused():
    with pytest.raises(ValueError, match=r"^a queue needs a depth of at least 4, not 3$"):
        Fifo(8, depth=3)
    with pytest.raises(ValueError, match=r"^no memory called 'sram' \(known: bram, lutram\)$"):
        Fifo(8, depth=4, memory="sram")
    with pytest.raises(ValueError, match=r"between clocks needs a depth of at least 2, not 0$"):
        AsyncFifo(8, depth=0, o_domain="merge")
