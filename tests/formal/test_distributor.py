"""Distributor: a record for each packet that closes something, in their order, by induction.

The combiner follows the records. If every core shows its stars in the order of the packets, stars
leave the operator in the order of arrivals. Benches of the operator check that,
and no proof does.
"""

import inspect
from importlib import import_module
from types import ModuleType

import pytest
from amaranth import Assert, Assume, Mux, Signal

from eddyline_hw.splitjoin.precision import Precision
from tests.formal.foretell import later
from tests.formal.prove import anyconst, bench, check

NAME = "eddyline_hw.splitjoin.distributor"
STATE = "        stale = Signal()\n"
SEEN = f"{STATE}        self._open, self._mode = open_, current.mode\n"


def distributor(*changes):
    """Return a distributor that shows its state, with pieces of its source changed."""
    source = inspect.getsource(import_module(NAME))
    for old, new in ((STATE, SEEN), *changes):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    module = ModuleType("changed")
    exec(compile(source, "changed", "exec"), vars(module))
    return module.Distributor()


def claim(*changes):
    """Return a module that claims it, and its free inputs."""
    dut = distributor(*changes)
    module = dut.elaborate(None)
    dut.elaborate = lambda platform: module
    m, free = bench(dut)
    message, packet, record = dut.i.payload, dut.packet, dut.record
    m.d.comb += [
        Assume(dut.precision.mode.as_value() <= Precision.INNER.value),
        Assume(dut.precision.every != 0),
        Assume(dut.interval != 0),
        Assume(message.star | ~message.flush),
    ]
    taken = later(m, dut.i.valid & dut.i.ready, 1, "taken")
    had = message.shape()(later(m, message, 1, "message"))
    # Whether the packets so far leave a group open.
    group = Signal()
    with m.If(dut.push):
        m.d.sync += group.eq(~packet.closes)
    m.d.comb += [
        # What induction has to know.
        Assert(dut._open == Mux(dut.push, ~packet.closes, group)),
        Assert(~dut._open | (dut._mode != Precision.INNER)),
        # A packet for each message, at once, and one for each change, which is not shown.
        Assert(~taken | dut.push),
        Assert(~dut.push | (packet.hidden == ~taken)),
        Assert(~dut.push | (packet.tuple == (taken & ~had.star))),
        Assert(~dut.push | (packet.sync == (taken & had.star))),
        Assert(~dut.push | (packet.flush == (taken & had.star & had.flush))),
        Assert(~(dut.push & packet.tuple) | (packet.side == had.side)),
        # Answers to messages and changes close all that is open.
        Assert(~dut.push | packet.tuple | packet.closes),
        # A record for the first packet of each group, and for one on its own: one for each star.
        Assert(dut.notes == (dut.push & ~group)),
        Assert(~dut.notes | (record.both + record.r + record.s == 1)),
        # It says where the star is to be seen: on the arrival's own side, or on both.
        Assert(~dut.notes | (record.both == packet.both)),
        Assert(~(dut.notes & ~packet.both) | (packet.tuple & packet.closes)),
        Assert(~(dut.notes & ~packet.both) | (record.s == packet.side)),
        Assert(~(dut.push & group) | packet.both),
    ]
    return m, free, dut


def test_every_star_has_its_record():
    m, free, _ = claim()
    check(m, free, depth=8, induction=2)


BROKEN = [
    # A group's later packets have records, too.
    ("(takes | switches) & ~open_", "takes | switches"),
    # A change leaves the group open, and forgets it.
    ("packet.closes.eq(message.star | stale | alone | fills)",
     "packet.closes.eq(message.star | alone | fills)"),
    # The last of a group has its star on its own side.
    ("packet.both.eq(stale | ~alone)", "packet.both.eq(stale | (~alone & ~fills))"),
    # The record is of the other side.
    ("self.record.s.eq(~stale & alone & message.side)",
     "self.record.s.eq(~stale & alone & ~message.side)"),
    # A message is taken while a change is told.
    ("self.i.ready.eq(self.room & ~stale)", "self.i.ready.eq(self.room)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), BROKEN)
def test_a_star_without_its_record_is_found(old, new):
    m, free, _ = claim((old, new))
    with pytest.raises(AssertionError, match=r"test_distributor\.py.* does not hold"):
        check(m, free, depth=8)


def claim_sizes(*changes):
    """Claim that groups have as many arrivals as a setting says that never changes."""
    m, free, dut = claim(*changes)
    every = anyconst(m, free, 2, "every")
    m.d.comb += [
        Assume(dut.precision.mode == Precision.OUTER),
        Assume(dut.precision.every == every),
        Assume(~dut.precision.adaptive),
    ]
    told, arrivals = Signal(), Signal(3)
    with m.If(dut.push):
        m.d.sync += told.eq(told | dut.packet.hidden)
        m.d.sync += arrivals.eq(Mux(dut.packet.closes, 0, arrivals + 1))
    counted = told & dut.push & dut.packet.tuple
    m.d.comb += Assert(~counted | (dut.packet.closes == (arrivals + 1 == every)))
    return m, free


def test_groups_have_the_size_that_was_asked_for():
    """Sixteen cycles from reset."""
    check(*claim_sizes(), depth=16)


def test_groups_of_another_size_are_found():
    with pytest.raises(AssertionError, match=r"test_distributor\.py.* does not hold"):
        check(*claim_sizes(("lone.eq(count == size)", "lone.eq(count > size)")), depth=16)
