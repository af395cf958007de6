"""RoundRobinArbiter: proved for all time by induction over one cycle.

A request that stays pending sees at most ``ways - 1`` grants used by others. Induction needs to be
told why: the mask is a thermometer, and each used grant brings the token closer.
"""

import pytest
from amaranth import Assert, Assume, ClockDomain, Module, Mux, Signal

from eddyline_hw.stream.arbiter import RoundRobinArbiter
from tests.formal.prove import anyconst, check


def claims(dut):
    """Return a module that claims one-hot, work-conserving and fair, and what it speaks of."""
    ways = dut.ways
    m = Module()
    m.domains.sync = clock = ClockDomain("sync", reset_less=True)
    m.submodules.dut = dut
    free = [clock.clk, dut.requests, dut.advance]

    m.d.comb += [
        Assert((dut.grant & (dut.grant - 1)[:ways]) == 0),
        Assert((dut.grant & ~dut.requests) == 0),
        Assert((dut.grant != 0) == (dut.requests != 0)),
    ]

    waiting = anyconst(m, free, range(ways), "waiting")
    passed = Signal(range(ways + 1))  # grants that others used while `waiting` was pending
    m.d.comb += [Assume(waiting < ways), Assert(passed < ways)]
    pending = dut.requests.bit_select(waiting, 1)
    served = dut.grant.bit_select(waiting, 1) & dut.advance
    with m.If(~pending | served):
        m.d.sync += passed.eq(0)
    with m.Elif(dut.advance):
        m.d.sync += passed.eq(passed + 1)
    return m, free, waiting, passed


@pytest.mark.parametrize(
    "ways", [1, 3, 8, *(pytest.param(ways, marks=pytest.mark.slow) for ways in (2, 5))]
)
def test_arbiter_is_one_hot_and_work_conserving_and_fair(ways):
    dut = RoundRobinArbiter(ways)
    m, free, waiting, passed = claims(dut)

    mask = dut._mask
    thermometer = [Assert(mask[n + 1] | ~mask[n]) for n in range(ways - 1)]
    token = Signal(range(ways + 1))  # where the search starts
    m.d.comb += [
        *thermometer,
        Assert(~mask[0]),
        token.eq(ways - sum(mask)),
        Assert(passed + Mux(waiting >= token, waiting - token, waiting + ways - token) < ways),
    ]
    check(m, free, depth=2 * ways, induction=1)


class FixedPriority(RoundRobinArbiter):
    """Seeded bug: the token never moves."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.sync += self._mask.eq(0)
        return m


def test_the_proof_finds_starvation():
    m, free, *_ = claims(FixedPriority(3))
    with pytest.raises(AssertionError, match=r"test_arbiter\.py.* does not hold\n(.*\n)*passed +0"):
        check(m, free, depth=8)


class AlwaysSomeone(RoundRobinArbiter):
    """Seeded bug: input 0 is granted although nobody asked."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(self.requests == 0):
            m.d.comb += self.grant.eq(1)
        return m


def test_the_proof_finds_a_grant_without_request():
    m, free, *_ = claims(AlwaysSomeone(3))
    with pytest.raises(AssertionError, match="does not hold"):
        check(m, free, depth=2)
