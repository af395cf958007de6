"""The queue between two clocks: all that can happen in 22 steps, however the edges fall.

Both domains get the same clock, and the solver chooses in each step which of them sees an edge.
"""

from unittest import mock

import pytest
from amaranth import Assert, Assume, ClockDomain, EnableInserter, Module, Signal

from eddyline_hw.stream import crossing
from eddyline_hw.stream.crossing import AsyncFifo
from tests.formal.prove import check

BITS = 3  # the range of numbers exceeds what the queues hold
STEPS = 22


def numbered(dut):
    """Return a module that sends numbers through ``dut`` and asserts that all arrive, in order."""
    m = Module()
    m.domains.sync = clock = ClockDomain("sync", reset_less=True)
    m.domains.merge = merge = ClockDomain("merge", reset_less=True)
    edges = Signal(2)
    m.submodules.dut = EnableInserter({"sync": edges[0], "merge": edges[1]})(dut)
    sent, received, waits, offered = Signal(BITS), Signal(BITS), Signal(), Signal()
    with m.If(edges[0]):
        m.d.sync += [
            sent.eq(sent + (dut.i.valid & dut.i.ready)),
            waits.eq(dut.i.valid & ~dut.i.ready),
        ]
    with m.If(edges[1]):
        m.d.sync += [
            received.eq(received + (dut.o.valid & dut.o.ready)),
            offered.eq(dut.o.valid & ~dut.o.ready),
        ]
    m.d.comb += [
        merge.clk.eq(clock.clk),
        dut.i.payload.eq(sent),
        Assume(~waits | dut.i.valid),
        Assert(~dut.o.valid | (dut.o.payload == received)),
        Assert(~offered | dut.o.valid),
        # All that is inside: the memory and the output register.
        Assert((sent - received)[:BITS] <= dut.depth + 1),
    ]
    return m, [clock.clk, edges, dut.i.valid, dut.o.ready]


@pytest.mark.parametrize("depth", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_nothing_is_lost_doubled_or_overtaken(depth):
    m, free = numbered(AsyncFifo(BITS, depth=depth, o_domain="merge"))
    check(m, free, depth=STEPS)


class Early(crossing.FFSynchronizer):
    """Seeded bug: a pointer that the other side believes to be ahead of where it is."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i ^ (self.i >> 1))
        return m


def test_the_proof_finds_a_wrong_pointer():
    with mock.patch.object(crossing, "FFSynchronizer", Early):
        m, free = numbered(AsyncFifo(BITS, depth=2, o_domain="merge"))
        with pytest.raises(AssertionError, match="does not hold"):
            check(m, free, depth=STEPS)
