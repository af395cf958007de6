"""Buffer: proved for all time by induction over one cycle."""

import pytest
from amaranth import Assert, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.buffer import Buffer
from tests.formal.prove import bench, check
from tests.formal.tags import assume_numbered, count, in_order, places

BITS = 3  # a buffer holds two payloads


def numbers(m, dut):
    entered = assume_numbered(m, dut.i, dut.i.payload, name="entered")
    left = count(m, dut.o.valid & dut.o.ready, "left", BITS)
    m.d.comb += Assert(~dut.o.valid | (dut.o.payload == left))
    return entered, left


def test_buffer_neither_loses_nor_doubles_nor_reorders():
    dut = Buffer(BITS)
    m, free = bench(dut)
    entered, left = numbers(m, dut)
    slots = [(occupied, payload, 1) for occupied, payload in places(m, dut)]
    in_order(m, slots, left=left, entered=entered)
    check(m, free, depth=8, induction=1)


class WithoutSpare(wiring.Component):
    """Seeded bug: readiness is registered, but what arrives in a stall has no place to go."""

    i: In(stream.Signature(BITS))
    o: Out(stream.Signature(BITS))

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.i.ready.eq(~self.o.valid | self.o.ready)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                self.o.valid.eq(self.i.valid & self.i.ready),
                self.o.payload.eq(self.i.payload),
            ]
        return m


def test_the_proof_finds_a_payload_lost_in_a_stall():
    dut = WithoutSpare()
    m, free = bench(dut)
    numbers(m, dut)
    with pytest.raises(AssertionError, match=r"test_buffer\.py.* does not hold"):
        check(m, free, depth=8)


class Withdrawing(Buffer):
    """Seeded bug: an offer is withdrawn while the producer pauses."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(~self.i.valid):
            m.d.sync += self.o.valid.eq(0)
        return m


def test_the_proof_finds_a_withdrawn_offer():
    with pytest.raises(AssertionError, match=r"contract\.py.* does not hold"):
        check(*bench(Withdrawing(BITS)), depth=6)
