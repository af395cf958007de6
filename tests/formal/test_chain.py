"""Two cores with tiny windows compare every pair that the definition asks for exactly once.

Bounded: all orders of arrival of a few tuples, one after the other as fast as they are taken, and a
flush behind them. Within the stated depth every run ends, so nothing is left unchecked.
"""

# amaranth: UnusedElaboratable=no
import pytest
from amaranth import Array, Assert, Const, Module, Mux, Signal
from amaranth.hdl import ClockDomain

from eddyline.plan import All, Layout, Order, Plan, Window
from eddyline_hw.handshake.asynchronous import AsyncChain
from eddyline_hw.handshake.lockstep import LockstepChain
from tests.formal.prove import anyconst, check

EMPTY = Layout((), ())
PLAN = Plan(EMPTY, EMPTY, All(()), Window("rows", 1), Window("rows", 1), Order("none"), False, 3)


def pair_by_pair(dut, windows, tuples, depth, *, believed=None):
    """Return a module that watches one pair, any one, from the first arrival to the flush.

    ``believed`` are the windows that the definition is given, if they differ.
    """
    m = Module()
    m.domains.sync = clock = ClockDomain("sync", reset_less=True)
    m.submodules.dut = dut
    free = [clock.clk]
    for name, value in dut.settings(*windows).items():
        m.d.comb += getattr(dut, name).eq(value)

    sent = Signal(range(tuples + 2))
    # Which side each tuple is of: any sequence, the same in all cycles.
    sides = anyconst(m, free, tuples, "sides")
    side = Array([*sides, Const(0), Const(0)])[sent]
    numbers = [Signal(3, name=f"count_{one}") for one in "rs"]
    number = Mux(side, numbers[1], numbers[0])
    m.d.comb += [
        dut.i.valid.eq(sent <= tuples),
        dut.i.p.star.eq(sent == tuples),
        dut.i.p.flush.eq(1),
        dut.i.p.side.eq(side),
        dut.i.p.entry.r.id.eq(number),
    ]

    pair = [anyconst(m, free, 3, name) for name in ("r", "s")]
    expected = Signal()
    with m.If(dut.i.valid & dut.i.ready):
        m.d.sync += sent.eq(sent + 1)
        for which, window in enumerate(believed or windows):
            arrives = ~dut.i.p.star & (side == 1 - which) & (numbers[1 - which] == pair[1 - which])
            # The partner came before, and fewer than a window of its side after it.
            came = pair[which] < numbers[which]
            with m.If(arrives & came & (numbers[which] - pair[which] <= window)):
                m.d.sync += expected.eq(1)
        with m.If(~dut.i.p.star):
            m.d.sync += Array(numbers)[side].eq(number + 1)

    found, answered = Signal(3), Signal(len(dut.o))
    hits = []
    for core, port in enumerate(dut.o):
        m.d.comb += port.ready.eq(1)
        hits.append(port.valid & ~port.p.star & (port.p.r_id == pair[0]) & (port.p.s_id == pair[1]))
        with m.If(port.valid & port.p.star):
            m.d.sync += answered[core].eq(1)
    m.d.sync += found.eq(found + sum(hits))
    m.d.comb += Assert(found <= expected)
    cycle = Signal(range(depth + 1))
    m.d.sync += cycle.eq(Mux(cycle == depth, depth, cycle + 1))
    with m.If(answered.all()):
        m.d.comb += Assert(found == expected)
    # The last cycle that is checked: by then every run has come to its end.
    with m.If(cycle == depth - 1):
        m.d.comb += Assert(answered.all())
    return m, free


def lockstep(windows):
    return LockstepChain(
        PLAN, cores=2, window_r=windows[0], window_s=windows[1], stages=0, window="shift"
    )


@pytest.mark.parametrize("windows", [(2, 2), (1, 2)])
def test_lock_step_compares_every_pair_once(windows):
    """Six tuples, 30 cycles."""
    m, free = pair_by_pair(lockstep(windows), windows, 6, 30)
    check(m, free, depth=30)


def test_a_window_off_by_one_is_found():
    windows = (2, 2)
    m, free = pair_by_pair(lockstep(windows), windows, 6, 30, believed=(2, 3))
    with pytest.raises(AssertionError, match="does not hold"):
        check(m, free, depth=30)


@pytest.mark.slow
def test_asynchronous_cores_compare_every_pair_once():
    """Four tuples, 80 cycles."""
    dut = AsyncChain(PLAN, cores=2, window_r=2, window_s=2, stages=0)
    m, free = pair_by_pair(dut, (2, 2), 4, 80)
    check(m, free, depth=80)


@pytest.mark.slow
def test_the_listing_as_printed_doubles_a_pair():
    dut = AsyncChain(PLAN, cores=2, window_r=2, window_s=2, stages=0, as_printed=True)
    m, free = pair_by_pair(dut, (2, 2), 4, 80)
    with pytest.raises(AssertionError, match="does not hold"):
        check(m, free, depth=80)
