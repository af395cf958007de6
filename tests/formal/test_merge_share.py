# amaranth: UnusedElaboratable=no
"""Merger: no output cycle is wasted and no input starves, for all time, by induction."""

import pytest
from amaranth import Assert, Assume, Cat, Mux, Signal

from eddyline_hw.stream.merge import Merger
from tests.formal.prove import anyconst, bench, check


def claims(dut):
    """Return a module that claims both, and what an induction speaks of."""
    module = dut.elaborate(None)
    m, free = bench(dut, submodule=module)
    valid = Cat(port.valid for port in dut.i)
    taken = Cat(port.valid & port.ready for port in dut.i)

    waited = Signal()  # a payload was waiting in the cycle before
    m.d.sync += waited.eq((valid & ~taken).any())
    m.d.comb += Assert(~waited | (dut.o.valid & ~dut.o.ready) | taken.any())

    waiting = anyconst(m, free, range(dut.ways), "waiting")
    passed = Signal(range(2 * dut.ways))  # payloads of others taken while `waiting` was pending
    m.d.comb += [Assume(waiting < dut.ways), Assert(passed < dut.ways)]
    with m.If(~valid.bit_select(waiting, 1) | taken.bit_select(waiting, 1)):
        m.d.sync += passed.eq(0)
    with m.Elif(taken.any()):
        m.d.sync += passed.eq(passed + 1)
    return m, free, module.submodules.arbiter, valid, waited, waiting, passed


@pytest.mark.parametrize(
    "ways", [3, 8, *(pytest.param(ways, marks=pytest.mark.slow) for ways in (2, 5))]
)
def test_merger_wastes_no_cycle_and_starves_no_input(ways):
    dut = Merger(1, ways=ways)
    m, free, arbiter, valid, waited, waiting, passed = claims(dut)

    turn, mask = dut._turn, arbiter._mask
    below = (turn - 1)[:ways]
    token = Signal(range(ways + 1))  # where the arbiter's search starts
    distance = Signal(range(ways))
    mine = turn.bit_select(waiting, 1)
    m.d.comb += [
        token.eq(ways - sum(mask)),
        distance.eq(Mux(waiting >= token, waiting - token, waiting + ways - token)),
        *(Assert(mask[n + 1] | ~mask[n]) for n in range(ways - 1)),
        Assert(~mask[0]),
        Assert(~dut._barrier),
        Assert((turn & below) == 0),
        # The input whose turn it is lies right behind the token, so it is chosen last.
        Assert((turn == 0) | (mask == ~(turn | below))),
        Assert(~waited | (turn & valid).any()),
        Assert(mine | (passed + distance + (turn & valid).any() < ways)),
    ]
    check(m, free, depth=4, induction=1)


class Unfair(Merger):
    """Seeded bug: the token never moves."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += m.submodules.arbiter.advance.eq(0)
        return m


def test_the_proof_finds_starvation():
    m, free, *_ = claims(Unfair(1, ways=3))
    with pytest.raises(AssertionError, match=r"test_merge_share\.py.* does not hold"):
        check(m, free, depth=8)


class Waiting(Merger):
    """Seeded bug: a turn that was for nothing lasts as long as the output stalls."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(self.o.valid & ~self.o.ready):
            m.d.sync += self._turn.eq(self._turn)
        return m


def test_the_proof_finds_a_wasted_cycle():
    m, free, *_ = claims(Waiting(1, ways=2))
    with pytest.raises(AssertionError, match=r"test_merge_share\.py.* does not hold"):
        check(m, free, depth=8)
