"""From a row with hits and stars to one item after another."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import item_layout, row_layout

__all__ = ["PunctuatedSerializer"]


class PunctuatedSerializer(wiring.Component):
    """Turn a row into results and stars, lowest lane first, a lane's star behind its result.

    One item per cycle without a gap between one row's last and the next one's first, as in
    :class:`eddyline_hw.handshake.serializer.HitSerializer`.

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
    i : ``In(stream.Signature(row_layout(plan, lanes, carried)))``
    o : ``Out(stream.Signature(item_layout(plan, carried)))``
        From flip-flops. The id of a star's other side is 0.
    """

    def __init__(self, plan, *, lanes, carried=()):
        self.lanes = lanes
        self.carried = tuple(carried)
        super().__init__(
            {
                "i": In(stream.Signature(row_layout(plan, lanes, carried))),
                "o": Out(stream.Signature(item_layout(plan, carried))),
            }
        )

    def elaborate(self, platform):
        m = Module()

        current = Signal.like(self.i.payload, reset_less=True)
        found, stars = current.found, current.stars
        # Items of a row: hit and star of each lane, and the last star. What is sent next is found a
        # cycle ahead, so that flip-flops steer the multiplexer.
        row = self.i.p
        lanes = zip(row.found.hits, row.stars.marks, strict=True)
        items = Cat(Cat(Cat(*lane) for lane in lanes), row.stars.closes)
        ahead, following = Signal(len(items)), Signal(len(items))
        lowest, rest = Signal.like(following), Signal.like(following)
        done = Signal(init=1)  # nothing is ahead
        m.d.comb += [
            following.eq(Mux(done, Mux(self.i.valid, items, 0), ahead)),
            rest.eq(following & (following - 1)),
        ]
        partner = Signal.like(found.probe)
        for lane in range(self.lanes):
            with m.If(lowest[2 * lane]):
                m.d.comb += partner.eq(found.parts[lane])
        closing, starred = Signal(), Signal()
        m.d.comb += [
            closing.eq(lowest[-1]),
            starred.eq(Cat(lowest[1::2], closing).any()),
        ]

        advance = Signal()
        m.d.comb += advance.eq(~self.o.valid | self.o.ready)
        m.d.comb += self.i.ready.eq(advance & done)
        item = self.o.p
        with m.If(advance):
            m.d.sync += [
                self.o.valid.eq(lowest != 0),
                item.star.eq(starred),
                item.side.eq(found.side),
                item.ordered.eq(stars.ordered),
                item.both.eq(closing & stars.both),
                item.sync.eq(closing & stars.sync),
                item.hidden.eq(closing & stars.hidden),
                item.final.eq(closing & ~stars.sync & ~stars.hidden),
                item.r_id.eq(Mux(found.side, partner.id, found.probe.id)),
                item.s_id.eq(Mux(found.side, found.probe.id, partner.id)),
                lowest.eq(following & ~(following - 1)),
                ahead.eq(rest),
                done.eq(rest == 0),
            ]
            for name in self.carried:
                m.d.sync += item[name].eq(Mux(found.side, partner[name], found.probe[name]))
            with m.If(done):
                m.d.sync += current.eq(row)
        return m
