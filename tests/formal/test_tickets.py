"""Queues of tickets: bodies follow their heads, for all time, by induction over three cycles.

As long as that takes a body from its head to its place, or from there to the output.
"""

from itertools import product

import pytest
from amaranth import Assert, Assume, Signal

from eddyline_hw.stream.room import RoomQueue
from eddyline_hw.stream.tickets import TicketQueue
from tests.formal.foretell import later, promise
from tests.formal.prove import bench, check, opened
from tests.formal.room import BITS, held, numbers, seen
from tests.formal.tags import in_order
from tests.sim.mutants.mutant import Patch


def claims(dut):
    """Claim that numbered heads and bodies come out in order, each body with its head."""
    m, free = bench(dut)
    looks = seen(m, dut._heads)
    entered, left = numbers(m, dut, dut.head)
    if dut._preview:
        promise(m, dut.o, "o")
    pushed = [dut.push]  # in this cycle, in the last one, and so on as long as a body takes
    for cycle in range(dut.lag):
        pushed.append(later(m, pushed[-1], 1, f"pushed{cycle}"))
    landed = Signal(BITS)  # bodies
    m.d.comb += [
        landed.eq(entered - sum(pushed[1:])),
        Assume(~pushed[-1] | (dut.body == landed)),
    ]
    offered = later(m, dut.o.valid, 2, "offered")
    number = later(m, dut.o.payload, 2, "number")
    m.d.comb += Assert(~offered | (dut.follows == number))
    return m, free, looks, entered, landed, left


def queue(flight, lag, foretells=True, kind=TicketQueue):
    """Return the smallest queue for these."""
    depth = 1 << (RoomQueue.BEHIND + flight).bit_length()
    return kind(BITS, BITS, depth=depth, flight=flight, lag=lag, foretells=foretells)


# Flight, lag, and whether heads are foretold.
SIZES = [*product(range(4), range(3), [True]), *product(range(4), range(2), [False])]
FAST = [(0, 0, False), (2, 2, True)]


@pytest.mark.parametrize(
    ("flight", "lag", "foretells"),
    [size if size in FAST else pytest.param(*size, marks=pytest.mark.slow) for size in SIZES],
)
def test_bodies_follow_their_heads(flight, lag, foretells):
    dut = queue(flight, lag, foretells)
    memory = opened(dut._bodies).submodules.bank0._storage
    m, free, looks, entered, landed, left = claims(dut)
    heads = held(m, dut._heads, looks)
    if foretells:
        heads = [(dut.o.valid, dut.o.payload), *heads]
    in_order(m, [(*place, 1) for place in heads], left=left, entered=entered)

    # Bodies lie in the order of their numbers, and the last place is always free.
    bits = len(dut._place)
    bodies = Signal(BITS)
    m.d.comb += [
        bodies.eq(landed - left),
        Assert(bodies < dut.depth),
        Assert(dut._place == left[:bits]),
        Assert(dut._after == (dut._was + 1)[:bits]),
        Assert(dut._place == (dut._was + dut._took)[:bits]),
        Assert(dut._next == landed[:bits]),
    ]
    for place in range(dut.depth - 1):
        probe = memory.read_port(domain="comb")
        m.d.comb += [
            probe.addr.eq(dut._place + place),
            Assert((place >= bodies) | (probe.data == (left + place)[:BITS])),
        ]
    check(m, free, depth=6, induction=3)


def refuse(dut):
    m, free, *_ = claims(dut)
    with pytest.raises(AssertionError, match=r"/(test_tickets|room)\.py.* does not hold"):
        check(m, free, depth=16)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for cycle in range(self.lag)", "for cycle in range(self.lag - 1)"),
        ("self._took.eq(self.o.valid & self.o.ready)", "self._took.eq(self.o.valid)"),
        ("bodies.w_addr.eq(self._next)", "bodies.w_addr.eq(self._next + 1)"),
    ],
)
def test_the_proof_finds_a_body_with_another_head(old, new):
    refuse(queue(2, 2, kind=Patch("eddyline_hw.stream.tickets", old, new).load().TicketQueue))


def test_the_proof_finds_a_body_that_is_overwritten(monkeypatch):
    """With one payload too many; there still is a place for its head."""
    monkeypatch.setattr(RoomQueue, "BEHIND", RoomQueue.BEHIND - 1)
    refuse(queue(2, 0))
