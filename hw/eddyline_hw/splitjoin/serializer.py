"""From a row with hits and stars to one item after another."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import found_layout, item_layout, pair_layout, row_layout
from eddyline_hw.stream.preview import foretold

__all__ = ["PunctuatedSerializer"]


class PunctuatedSerializer(wiring.Component):
    """Turn a row into results and stars, lowest lane first, a lane's star behind its result.

    One item per cycle without a gap between one row's last and the next one's first.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    lanes : int
        Partners that may match at once.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    i : ``In(foretold(row_layout(lanes)))``
        Rows. Each stays on offer until its last item.
    found : ``In(found_layout(plan, lanes, carried))``
        What belongs to the row that was on offer two cycles ago.
    room : ``In(1)``
        Whoever takes the items can take another one.
    sends : ``Out(2)``
        An item comes for the stream of R arrivals, of S arrivals; three cycles after there was
        room, from flip-flops.
    item : ``Out(item_layout())``
        It.
    pair : ``Out(pair_layout(plan, carried))``
        What belongs to the item of two cycles ago. The id of a star's other side is 0.
    """

    flight = 3
    lag = 2

    def __init__(self, plan, *, lanes, carried=()):
        self.lanes = lanes
        self.carried = tuple(carried)
        super().__init__(
            {
                "i": In(foretold(row_layout(lanes))),
                "found": In(found_layout(plan, lanes, carried)),
                "room": In(1),
                "sends": Out(2),
                "item": Out(item_layout()),
                "pair": Out(pair_layout(plan, carried)),
            }
        )

    def elaborate(self, platform):
        m = Module()

        # An item of what is on offer is sent in this cycle, its first, its last. All of that was
        # decided in the cycle before, by what is on offer now.
        sends, fresh, ends = Signal(), Signal(init=1), Signal()
        row = self.i.payload
        m.d.comb += self.i.ready.eq(~self.i.valid | (sends & ends))
        # Of a row of which something was sent: what is left, and whether that is two items at most.
        rest, few = Signal.like(row.items), Signal()
        current, after = Signal.like(row.items), Signal.like(row.items)
        m.d.comb += [
            current.eq(Mux(fresh, row.items, rest)),
            after.eq(_without_lowest(current)),
        ]
        with m.If(sends):
            m.d.sync += [fresh.eq(ends), rest.eq(after), few.eq(_few(after))]
        m.d.sync += sends.eq(self.i.coming & self.room)
        with m.If(self.i.ready):
            m.d.sync += ends.eq(~self.i.behind.several)
        with m.Elif(sends):
            m.d.sync += ends.eq(Mux(fresh, _few(row.items), few))

        sent, chosen = Signal(), Signal.like(row.items)
        flags = Signal.like(row)
        m.d.sync += [sent.eq(sends), chosen.eq(current & ~after), flags.eq(row)]
        closing = chosen[-1]
        both = closing & flags.both
        is_star = Cat(chosen[1::2], closing).any()
        m.d.sync += [
            self.sends.eq(Cat(~flags.side | both, flags.side | both) & sent.replicate(2)),
            self.item.star.eq(is_star),
            self.item.result.eq(~is_star),
            self.item.side.eq(flags.side),
            self.item.ordered.eq(flags.ordered),
            self.item.both.eq(both),
            self.item.sync.eq(closing & flags.sync),
            self.item.hidden.eq(closing & flags.hidden),
            self.item.final.eq(closing & ~flags.sync & ~flags.hidden),
        ]

        # The ids come two cycles behind the row, and wait for nothing.
        lanes, sides = Signal(self.lanes), Signal(2)
        m.d.sync += [lanes.eq(chosen[: 2 * self.lanes : 2]), sides.eq(Cat(flags.side, sides))]
        probe = Signal.like(self.found.probe)
        partner, selected = Signal.like(self.found.probe), Signal.like(self.found.probe)
        for lane in range(self.lanes):
            with m.If(lanes[lane]):
                m.d.comb += selected.eq(self.found.parts[lane])
        m.d.sync += [probe.eq(self.found.probe), partner.eq(selected)]
        of_s = sides[1]
        m.d.sync += [
            self.pair.r_id.eq(Mux(of_s, partner.id, probe.id)),
            self.pair.s_id.eq(Mux(of_s, probe.id, partner.id)),
        ]
        for name in self.carried:
            m.d.sync += self.pair[name].eq(Mux(of_s, partner[name], probe[name]))
        return m


def _without_lowest(bits):
    return (bits & (bits - 1))[: len(bits)]


def _few(bits):
    """Return whether at most two are set."""
    return _without_lowest(_without_lowest(bits)) == 0
