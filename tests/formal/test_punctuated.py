"""Punctuated merger: no item crosses a star, none is lost, and all are served in turn.

All of it for all time, by induction. An item has nothing but flags, so the claims are about who is
taken from, and when: what follows an item follows from that.
"""

import pytest
from amaranth import Assert, Assume, Cat, Mux, Signal

from eddyline_hw.splitjoin.layouts import item_layout
from eddyline_hw.splitjoin.merger import PunctuatedMerger
from tests.formal.foretell import later, offer
from tests.formal.prove import anyconst, bench, check
from tests.formal.tags import count
from tests.sim.mutants.mutant import Patch

WAYS = [1, 3, *(pytest.param(ways, marks=pytest.mark.slow) for ways in (2, 4))]
MODULE = "eddyline_hw.splitjoin.merger"
NUMBER = 3  # bits
RESULT = item_layout().const({"result": 1}).as_value()


class Bench:
    """A merger, a module around it, and what is on offer and taken in a cycle."""

    def __init__(self, ways, kind=PunctuatedMerger):
        self.dut = kind(ways=ways)
        self.m, self.free = bench(self.dut)
        ports = self.dut.i
        for way, port in enumerate(ports):
            offer(self.m, port, f"i{way}", clears=("star", "result"))
            for is_there, item in ((port.valid, port.payload), (port.coming, port.ahead)):
                self.m.d.comb += Assume(~is_there | (item.result == ~item.star))
        self.valid = Cat(port.valid for port in ports)
        self.ready = Cat(port.valid & port.ready for port in ports)
        self.stars = Cat(port.valid & port.payload.star for port in ports)
        self.others = Cat(port.valid & ~port.payload.star for port in ports)
        self.had_room = later(self.m, self.dut.room, 1, "room")

    def steady(self):
        """Claim that one item is taken at a time, or a star from everyone, but nothing else.

        This is also all that induction has to know of the state.
        """
        dut, ready = self.dut, self.ready
        single = (ready & (ready - 1)[: dut.ways]) == 0
        self.m.d.comb += [
            Assert(dut._ready == ready),
            Assert(Mux(dut._barrier, ready.all() & self.stars.all(), single)),
            Assert(dut._barrier | ((ready & self.stars) == 0)),
            Assert(self.had_room | (ready == 0)),
            Assert(dut._turn == 1 << dut._owner),
            Assert(dut._owner < dut.ways),
        ]


def account(b):
    """Claim that each item taken is pushed once, in its time, and between the right stars.

    Stars have the number of their round in two of their flags, as long as they are alike.
    """
    m, dut = b.m, b.dut
    alike = anyconst(m, b.free, 1, "alike")
    star = dut.push & dut.item.star
    stars_left = count(m, star, "stars_left", 2)
    leader = later(m, dut.leader, 1, "leader")
    number = Cat(dut.item.sync, dut.item.final)
    m.d.comb += [
        Assert(~star | (dut.taken == leader)),
        Assert(~dut.push | star | (sum(dut.taken) == 1)),
        Assert(~(star & alike) | (number == stars_left)),
        Assert(~dut.push | later(m, dut.room, dut.flight, "sent")),
        Assert(~dut.push | dut.item.star | (dut.item.as_value() == RESULT)),
        Assert(dut.item.result == (dut.push & ~dut.item.star)),
    ]
    for way, port in enumerate(dut.i):
        stars = count(m, b.ready[way] & port.payload.star, f"stars_{way}", 2)
        flags = Cat(port.payload.sync, port.payload.final)
        m.d.comb += Assume(~(b.stars[way] & alike) | (flags == stars))
        m.d.comb += Assert(stars == (stars_left + star)[:2])

        taken = b.ready[way] & ~port.payload.star
        mine = dut.push & ~dut.item.star & dut.taken[way]
        entered = count(m, taken, f"entered_{way}", NUMBER)
        left = count(m, mine, f"left_{way}", NUMBER)
        m.d.comb += [
            Assert(entered == (left + mine)[:NUMBER]),
            Assert(~mine | (later(m, stars, 1, f"round_{way}") == stars_left)),
        ]


@pytest.mark.parametrize("ways", WAYS)
def test_merger_neither_loses_nor_doubles_nor_crosses_a_star(ways):
    b = Bench(ways)
    b.steady()
    account(b)
    check(b.m, b.free, depth=6, induction=2)


def sequence(b):
    """Claim that behind a star that asks for it, items come in the sequence of the inputs.

    Returns whether one asked for it, and the newest input that was served since.
    """
    m, dut = b.m, b.dut
    asked, newest = Signal(), Signal(range(dut.ways))
    served = Signal.like(newest)
    m.d.comb += served.eq(sum(Mux(dut.taken[way], way, 0) for way in range(dut.ways)))
    with m.If(dut.push):
        m.d.sync += newest.eq(Mux(dut.item.star, 0, served))
        with m.If(dut.item.star):
            m.d.sync += asked.eq(dut.item.ordered)
    m.d.comb += Assert(~(asked & dut.push & ~dut.item.star) | (served >= newest))
    return asked, newest


@pytest.mark.parametrize("ways", WAYS)
def test_items_come_in_sequence_if_a_star_asked_for_it(ways):
    b = Bench(ways)
    b.steady()
    account(b)
    asked, newest = sequence(b)
    m, dut = b.m, b.dut
    # Stars that are shown stay until all are, so nobody below the one served can come in between.
    star = dut.push & dut.item.star
    now = Mux(star, dut.item.ordered, asked)
    m.d.comb += [Assert(dut._ordered == now), Assert(newest < ways)]
    for way in range(ways):
        waits = (b.stars & ~b.ready)[:way].all()
        m.d.comb += [
            Assert(~(now & ~star & ~dut._barrier & (newest == way)) | waits),
            Assert(~(now & ~dut._barrier & b.ready[way]) | waits),
            Assert(~(now & dut.push & ~star & ~dut._barrier & dut.taken[way]) | waits),
        ]
    check(m, b.free, depth=6, induction=2)


def share(b):
    """Claim that no cycle with room is wasted, and that nobody waits for more than the others.

    Returns who waits, whether it does in this cycle, and for how many it did by now.
    """
    m, dut, ways = b.m, b.dut, b.dut.ways
    waited = Signal()  # an item was on offer in the last cycle, with room for it and in this one
    stays = (b.others & ~b.ready).any()
    m.d.sync += waited.eq(b.had_room & dut.room & ~dut._ordered & stays)
    m.d.comb += [
        Assert(~waited | b.ready.any()),
        Assert(~(b.had_room & b.stars.all()) | b.ready.all()),
        *(
            Assert(~(b.had_room & dut._ordered & next_in_turn) | b.ready[way])
            for way in range(ways)
            for next_in_turn in [b.others[way] & b.stars[:way].all()]
        ),
    ]
    waiting = anyconst(m, b.free, range(ways), "waiting")
    passed = Signal(range(2 * ways))  # items of others taken while one of `waiting` was on offer
    m.d.comb += [Assume(waiting < ways), Assert(passed < ways)]
    pending = b.others.bit_select(waiting, 1) & ~b.ready.bit_select(waiting, 1)
    pending = pending & ~dut._ordered
    with m.If(~pending):
        m.d.sync += passed.eq(0)
    with m.Elif(b.ready.any()):
        m.d.sync += passed.eq(passed + 1)
    return waiting, pending, passed


@pytest.mark.parametrize(
    "ways", [3, *(pytest.param(ways, marks=pytest.mark.slow) for ways in (2, 5, 8))]
)
def test_merger_wastes_no_cycle_and_starves_no_input(ways):
    b = Bench(ways)
    b.steady()
    waiting, pending, passed = share(b)
    m, owner = b.m, b.dut._owner
    between = Signal(range(ways))
    m.d.comb += [
        # How far behind the owner, who is the last in line.
        between.eq(Mux(waiting > owner, waiting - owner, waiting + ways - owner)),
        # Others that come first: one is taken now, then the owner and those in between.
        Assert(~pending | (passed + b.ready.any() + Mux(waiting == owner, 0, between) < ways)),
    ]
    check(m, b.free, depth=6, induction=2)


GOES = "goes, star_goes = others[number] & self.room, stars[number] & self.room"
TURN = "self._owner.eq(next_owner(self._owner, served, ways))"
ORDERED = "ordered.eq(Mux(self._barrier, self._shows_ordered, self._ordered))"


@pytest.mark.parametrize(
    ("claim", "old", "new"),
    [
        # two at once: one is lost
        (account, "in_turn = Mux(ordered, in_sequence, self._turn[number])", "in_turn = 1"),
        # an item is taken and never told of
        (account, "self.push.eq(self._ready.any())", "self.push.eq(self._ready[1:].any())"),
        # nobody waits for room
        (account, GOES, "goes, star_goes = others[number], stars[number]"),
        # a star does not wait for all
        (account, "in_sequence & stars[number + 1 :].all()", "in_sequence"),
        # it has the wrong body
        (account, "Mux(self._barrier, self.leader, self._ready)", "self._ready"),
        # it asks in vain
        (sequence, ORDERED, "ordered.eq(0)"),
        # it asks a cycle late
        (sequence, ORDERED, "ordered.eq(self._ordered)"),
        # somebody below may still come
        (sequence, "in_sequence = stars[:number].all()", "in_sequence = ~others[:number].any()"),
        # the turn stays where it is
        (share, TURN, "self._owner.eq(self._owner)"),
        # the first is always next
        (share, TURN, "self._owner.eq(next_owner(0, served, ways))"),
        # stars come every other cycle
        (
            share,
            "stars[number] & self.room",
            "stars[number] & self.room & ~self._barrier",
        ),
    ],
)
def test_the_claims_can_fail(claim, old, new):
    b = Bench(3, Patch(MODULE, old, new).load().PunctuatedMerger)
    claim(b)
    with pytest.raises(AssertionError, match=r"test_punctuated\.py.* does not hold"):
        check(b.m, b.free, depth=10)
