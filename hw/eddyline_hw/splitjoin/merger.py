"""Punctuated merging: which of several streams goes on."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import item_layout
from eddyline_hw.stream.arbiter import next_owner
from eddyline_hw.stream.preview import foretold

__all__ = ["PunctuatedMerger"]


class PunctuatedMerger(wiring.Component):
    """Merge several streams of items into one, star by star (SplitJoin, algorithm 5).

    Stars are barriers: an input whose next item is a star is not served until every input shows
    one; then all are taken in one cycle and leave as one star. No item crosses its star. Behind a
    star with ``ordered`` the inputs are served in sequence, each until it shows its star; behind
    any other one fairly, so that an item waits for at most ``ways - 1`` others.

    One item per cycle, be it a star or not. Who is served is decided a cycle ahead, and where order
    does not matter, whose turn it is another cycle before: then an output cycle may stay empty
    for an item that came to an idle merger.

    Parameters
    ----------
    ways : int
        Number of inputs, at least 1.

    Members
    -------
    i : ``In(foretold(item_layout())).array(ways)``
        Inputs, with neither ``star`` nor ``result`` while nothing is on offer. At most one is taken
        per cycle, or all of them if all show a star. Stars that are taken together are alike, or
        have no flag set.
    leader : ``In(ways)``
        The input that ``taken`` names for a star; one-hot.
    room : ``In(1)``
        The merged item can be sent.
    push, item : Out
        It, two cycles later, from flip-flops. A result has no other flag set.
    taken : ``Out(ways)``
        Whose item it is.
    """

    flight = 2

    def __init__(self, *, ways):
        if ways < 1:
            raise ValueError(f"a merger needs at least 1 input, not {ways!r}")
        self.ways = ways
        super().__init__(
            {
                "i": In(foretold(item_layout())).array(ways),
                "leader": In(ways, init=1),
                "room": In(1),
                "push": Out(1),
                "item": Out(item_layout()),
                "taken": Out(ways),
            }
        )
        self._ready = Signal(ways)  # inputs that are taken from in this cycle
        self._moves = Signal(ways, init=~0)  # these, and those with nothing on offer
        self._barrier = Signal()  # they show a star
        self._owner = Signal(range(ways))  # whose turn it is, also as a mask
        self._turn = Signal(ways, init=1)
        self._ordered = Signal()
        self._shows_ordered = Signal()  # `ordered` of any payload

    def elaborate(self, platform):
        m = Module()

        # What is on offer in the next cycle.
        stars, others = Signal(self.ways), Signal(self.ways)
        barrier, ordered = Signal(), Signal()
        shown = item_layout()(reduce(or_, (Value.cast(port.payload) for port in self.i)))
        m.d.comb += [
            stars.eq(Cat(port.ahead.star for port in self.i)),
            others.eq(Cat(port.ahead.result for port in self.i)),
            barrier.eq(stars.all()),
            ordered.eq(Mux(self._barrier, self._shows_ordered, self._ordered)),
        ]
        m.d.sync += [
            self._ordered.eq(ordered),
            self._shows_ordered.eq(Cat(port.ahead.ordered for port in self.i).any()),
            self._barrier.eq(barrier & self.room),
        ]
        # Two levels of logic: what is foretold, and whether there is room, is one; who is taken
        # from is another.
        for number, port in enumerate(self.i):
            in_sequence = stars[:number].all()
            others_show = in_sequence & stars[number + 1 :].all()
            in_turn = Mux(ordered, in_sequence, self._turn[number])
            goes, star_goes = others[number] & self.room, stars[number] & self.room
            idle = ~port.coming
            m.d.sync += [
                self._ready[number].eq((goes & in_turn) | (star_goes & others_show)),
                self._moves[number].eq(
                    ((goes | idle) & in_turn)
                    | ((star_goes | idle) & others_show)
                    | ((goes | idle) & (star_goes | idle))
                ),
            ]
            m.d.comb += port.ready.eq(self._moves[number])
        # Of the input that is going to be taken from nothing is known when the next turn is given
        # away, but it is the last in line.
        ways, served = range(self.ways), others & self.room.replicate(self.ways)
        m.d.sync += [
            self._owner.eq(next_owner(self._owner, served, ways)),
            self._turn.eq(next_owner(self._owner, served, [1 << way for way in ways])),
        ]

        m.d.sync += [
            self.push.eq(self._ready.any()),
            self.item.eq(Value.cast(shown) & self._barrier.replicate(item_layout().size)),
            self.item.star.eq(self._barrier),  # also if none of them has a flag set
            self.item.result.eq(self._ready.any() & ~self._barrier),
            self.taken.eq(Mux(self._barrier, self.leader, self._ready)),
        ]
        return m
