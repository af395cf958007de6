from functools import partial

from amaranth.lib import data
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline_hw.stream.buffer import Buffer
from tests.hw.bench import collect, feed, record, simulate

GAPS = st.lists(st.integers(0, 3), max_size=12)
PAIR = data.StructLayout({"key": 6, "side": 1})


@settings(max_examples=30, deadline=None)
@given(count=st.integers(0, 12), idle=GAPS, stall=GAPS)
def test_order_is_kept(count, idle, stall):
    dut = Buffer(PAIR)
    sent = [PAIR.const({"key": key, "side": key & 1}) for key in range(count)]
    received = []
    simulate(
        dut,
        partial(feed, port=dut.i, payloads=sent, idle=idle),
        partial(collect, port=dut.o, count=count, into=received, stall=stall),
    )
    assert received == sent


def test_a_payload_passes_every_cycle_one_cycle_late():
    dut = Buffer(8)
    entered, left = [], []
    simulate(
        dut,
        partial(feed, port=dut.i, payloads=range(20)),
        partial(collect, port=dut.o, count=20, into=[]),
        watch=[
            partial(record, port=dut.i, into=entered),
            partial(record, port=dut.o, into=left),
        ],
    )
    assert entered == [(n, n) for n in range(20)]
    assert left == [(n + 1, n) for n in range(20)]


def test_a_stalled_buffer_holds_two_payloads():
    dut = Buffer(8)
    entered = []

    async def wait(ctx):
        for _ in range(10):
            await ctx.tick()
        assert not ctx.get(dut.i.ready)
        await collect(ctx, dut.o, 5, [])

    simulate(
        dut,
        partial(feed, port=dut.i, payloads=range(5)),
        wait,
        watch=[partial(record, port=dut.i, into=entered)],
    )
    assert [cycle for cycle, _ in entered] == [0, 1, 11, 12, 13]


def test_nothing_passes_within_a_cycle():
    dut = Buffer(4)

    async def poke(ctx):
        """Change every input within a cycle; no output may follow."""
        for cycle in range(40):
            seen = set()
            for valid in (0, 1):
                for ready in (0, 1):
                    ctx.set(dut.i.valid, valid)
                    ctx.set(dut.i.payload, cycle + valid & 15)
                    ctx.set(dut.o.ready, ready)
                    outputs = dut.i.ready, dut.o.valid, dut.o.payload
                    seen.add(tuple(ctx.get(output) for output in outputs))
            assert len(seen) == 1
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload, 3)
            ctx.set(dut.o.ready, cycle % 8 == 7)
            await ctx.tick()

    simulate(dut, poke)
