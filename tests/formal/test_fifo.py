"""Queues: proved for all time, for small depths, by induction.

The two kinds of memory differ by an attribute only, which synthesis reads.
"""

import pytest
from amaranth import Assert

from eddyline_hw.stream.fifo import Fifo
from eddyline_hw.stream.mailbox import Mailbox
from tests.formal.prove import bench, check
from tests.formal.tags import assume_numbered, count, in_order, places

BITS = 4  # numbers: more than a queue holds


def numbers(m, dut):
    entered = assume_numbered(m, dut.i, dut.i.payload, name="entered")
    left = count(m, dut.o.valid & dut.o.ready, "left", BITS)
    m.d.comb += Assert(~dut.o.valid | (dut.o.payload == left))
    return entered, left


@pytest.mark.parametrize("depth", [4, 5])
def test_queue_neither_loses_nor_doubles_nor_reorders(depth):
    dut = Fifo(BITS, depth=depth)
    m, free = bench(dut)
    entered, left = numbers(m, dut)
    slots = [(occupied, payload, 1) for occupied, payload in places(m, dut)]
    in_order(m, slots, left=left, entered=entered)
    check(m, free, depth=2 * depth, induction=1)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_mailbox_neither_loses_nor_doubles_nor_reorders(depth):
    dut = Mailbox(BITS, depth=depth)
    m, free = bench(dut)
    entered, left = numbers(m, dut)
    m.d.comb += [
        Assert(dut.level <= depth),
        Assert(dut._head < depth),
        Assert(dut._tail == (dut._head + dut.level) % depth),
        Assert(dut.i.ready == (dut.level != depth)),
        Assert(~dut.o.valid | (dut.level != 0)),
    ]
    held = []
    for place in range(depth):
        probe = dut._storage.read_port(domain="comb")
        m.d.comb += probe.addr.eq((dut._head + place) % depth)
        held.append((place < dut.level, probe.data, 1))
    in_order(m, held, left=left, entered=entered)
    check(m, free, depth=2 * depth, induction=2)


class Overflowing(Fifo):
    """Seeded bug: the queue also accepts when it is full."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(1)
        return m


def test_the_proof_finds_an_overflow():
    dut = Overflowing(BITS, depth=4)
    m, free = bench(dut)
    numbers(m, dut)
    with pytest.raises(AssertionError, match=r"test_fifo\.py.* does not hold"):
        check(m, free, depth=10)


class Overtaking(Fifo):
    """Seeded bug: when the memory is full, that in place 1 leaves first."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(~self.i.ready):
            m.d.comb += self._r_port.addr.eq(1)
        return m


def test_the_proof_finds_a_change_of_order():
    dut = Overtaking(BITS, depth=4)
    m, free = bench(dut)
    numbers(m, dut)
    with pytest.raises(AssertionError, match="does not hold"):
        check(m, free, depth=8)
