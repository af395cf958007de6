# amaranth: UnusedElaboratable=no
"""Steered merger: what is on loses nothing, crosses no star, and comes in sequence if asked to.

Which inputs are on is any choice of the solver's, and any of them may go off in any cycle, for
good. What stars ask for is any choice too.
"""

import pytest
from amaranth import Assert, Assume, Cat, Mux, Signal
from amaranth.lib import data

from eddyline_hw.stream.merge import Merger
from tests.formal.prove import bench, check
from tests.formal.tags import count, in_order

WAYS = 3
TAGGED = data.StructLayout({"star": 1, "ordered": 1, "way": 2, "number": 3})
EPOCHS = data.StructLayout({"star": 1, "ordered": 1, "epoch": 2})
SEQUENCE = data.StructLayout({"star": 1, "ordered": 1, "way": 2})
# Which input gives a star its payload follows from the mask of the cycle before: one cycle more
# than what the other proofs of mergers need.
CYCLES = 2


def steered(shape, kind=Merger, ways=WAYS):
    """Return a merger, a module around it, its free inputs, and which were on a cycle ago."""
    dut = kind(shape, ways=ways, steered=True)
    m, free = bench(dut)
    before, later = Signal(ways), Signal()
    m.d.sync += [before.eq(dut.enabled), later.eq(1)]
    m.d.comb += [Assume(dut.enabled != 0), Assume(~later | ((dut.enabled & ~before) == 0))]
    for way, port in enumerate(dut.i):
        if "way" in dict(shape):
            m.d.comb += Assume(~port.valid | (port.payload.way == way))
    return dut, m, free, Mux(later, before, dut.enabled)


def steady(m, dut, on):
    """Assert what induction must know of the merger's state, if ``on`` were so a cycle ago."""
    stars = Cat(port.valid & port.payload.star for port in dut.i) | ~on
    m.d.comb += [
        Assert((dut._turn & (dut._turn - 1)[: dut.ways]) == 0),
        Assert(~dut._barrier | (stars.all() & (dut._turn == 0))),
    ]


def happens(port, on, *, star):
    return port.valid & port.ready & on & (port.payload.star == star)


def tag(m, dut):
    """Assert that all numbered results of each input come out, in order, and nothing else."""
    shown = dut.o.valid & ~dut.o.payload.star
    m.d.comb += Assert(~shown | (dut.o.payload.way < dut.ways))
    accounts = []
    for way, port in enumerate(dut.i):
        on = dut.enabled[way]
        entered = count(m, happens(port, on, star=0), f"entered_{way}", 3)
        number = port.payload.number
        m.d.comb += Assume(~(port.valid & on) | port.payload.star | (number == entered))
        mine = shown & (dut.o.payload.way == way)
        left = count(m, mine & dut.o.ready, f"left_{way}", 3)
        m.d.comb += Assert(~mine | (dut.o.payload.number == left))
        accounts.append(([(mine, dut.o.payload.number, 1)], left, entered))
    return accounts


@pytest.mark.parametrize("ways", [1, 2, WAYS])
def test_steered_merger_neither_loses_nor_doubles_nor_reorders(ways):
    """Six cycles from reset, and induction over two."""
    dut, m, free, on = steered(TAGGED, ways=ways)
    steady(m, dut, on)
    for slots, left, entered in tag(m, dut):
        in_order(m, slots, left=left, entered=entered)
    check(m, free, depth=6, induction=CYCLES)


def epochs(m, dut):
    """Let each input write the number of its stars so far into its payloads.

    At the output the same must hold: stars are numbered without a gap, and no result is on the
    wrong side of one. Returns the stars that each input gave, and those that left.
    """
    stars = []
    for way, port in enumerate(dut.i):
        on = dut.enabled[way]
        stars.append(count(m, happens(port, on, star=1), f"stars_{way}", 2))
        m.d.comb += Assume(~(port.valid & on) | (port.payload.epoch == stars[way]))
    left = count(m, happens(dut.o, 1, star=1), "stars_left", 2)
    m.d.comb += Assert(~dut.o.valid | (dut.o.payload.epoch == left))
    return stars, left


def test_no_result_crosses_a_star_and_stars_are_monotone():
    """Six cycles from reset, and induction over two."""
    dut, m, free, on = steered(EPOCHS)
    steady(m, dut, on)
    stars, left = epochs(m, dut)
    under_way = dut.o.valid & dut.o.payload.star
    for way, given in enumerate(stars):
        m.d.comb += Assert(~dut.enabled[way] | (given == (left + under_way)[:2]))
    check(m, free, depth=6, induction=CYCLES)


def sequence(m, dut):
    """Assert that behind a star that asks for it, results come in the sequence of the inputs."""
    asked, newest = Signal(), Signal(2)
    item = dut.o.payload
    with m.If(dut.o.valid & dut.o.ready):
        m.d.sync += newest.eq(Mux(item.star, 0, item.way))
        with m.If(item.star):
            m.d.sync += asked.eq(item.ordered)
    m.d.comb += Assert(~(asked & dut.o.valid & ~item.star) | (item.way >= newest))


def test_results_come_in_sequence_if_a_star_asked_for_it():
    """Sixteen cycles from reset: some rounds of stars, and results of every input."""
    dut, m, free, _ = steered(SEQUENCE)
    sequence(m, dut)
    check(m, free, depth=16)


class Doubling(Merger):
    """Seeded bug: with all inputs pending the first is taken, but not told so."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(Cat(port.valid for port in self.i).all() & self.enabled[0]):
            m.d.comb += self.i[0].ready.eq(0)
        return m


def test_the_proof_finds_a_doubled_result():
    dut, m, free, _ = steered(TAGGED, Doubling)
    tag(m, dut)
    with pytest.raises(AssertionError, match=r"test_steered\.py.* does not hold"):
        check(m, free, depth=6)


class Hasty(Merger):
    """Seeded bug: a star does not wait for the last input."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        shown = Cat(port.valid & port.payload.star for port in self.i)
        with m.If(~self._barrier & shown[0] & shown[1] & ~self.o.valid):
            m.d.sync += [self._barrier.eq(1), self._turn.eq(0)]
        return m


def test_the_proof_finds_a_result_behind_its_star():
    dut, m, free, _ = steered(EPOCHS, Hasty)
    epochs(m, dut)
    with pytest.raises(AssertionError, match=r"test_steered\.py.* does not hold"):
        check(m, free, depth=8)


class Fair(Merger):
    """Seeded bug: inputs are served fairly, whatever stars ask for."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += self._turn.eq(m.submodules.arbiter.grant)
        return m


def test_the_proof_finds_a_result_out_of_sequence():
    dut, m, free, _ = steered(SEQUENCE, Fair)
    sequence(m, dut)
    with pytest.raises(AssertionError, match=r"test_steered\.py.* does not hold"):
        check(m, free, depth=12)
