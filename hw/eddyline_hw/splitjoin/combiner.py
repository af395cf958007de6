"""Two streams of results into one."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import item_layout, joined_layout, pair_layout, record_layout
from eddyline_hw.stream.preview import foretold

__all__ = ["Combiner", "leave"]


def leave(m, item, pair, port):
    """Show at ``port`` what of an item and its pair is for the outside."""
    for name, _ in port.shape():
        m.d.comb += port[name].eq(item[name] if name in dict(item.shape()) else pair[name])


class Combiner(wiring.Component):
    """Bring results of R arrivals and of S arrivals together as the records say.

    For a record of one side, all of that side's stream up to a final star is passed on. With
    ``both``, the two streams are merged, fairly, until both show a star: these leave as one. One
    item per cycle, also from one record to the next.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    i : ``In(foretold(item_layout())).array(2)``
        Results of R arrivals, of S arrivals; without ``star``, ``result`` and ``final`` while
        nothing is on offer, and without ``final`` if it is no star.
    pairs : ``In(pair_layout(plan, carried)).array(2)``
        What belongs to the items on offer two cycles ago.
    records : ``In(foretold(record_layout()))``
        What to do, in the order of arrivals; nothing is set while nothing is on offer.
    room : ``In(1)``
        The combined item can be sent.
    push, joined : Out
        It, four cycles later, from flip-flops. Hidden stars are left out.
    """

    flight = 4

    def __init__(self, plan, *, carried=()):
        self.plan = plan
        super().__init__(
            {
                "i": In(foretold(item_layout())).array(2),
                "pairs": In(pair_layout(plan, carried)).array(2),
                "records": In(foretold(record_layout())),
                "room": In(1),
                "push": Out(1),
                "joined": Out(joined_layout(plan, carried)),
            }
        )

    def elaborate(self, platform):
        m = Module()

        # All is decided by what is on offer in the next cycle, when it takes effect.
        record = self.records.ahead
        taken = Signal(2)  # what is taken in this cycle
        moves, done = Signal(2, init=0b11), Signal(init=1)  # that, a record; or there is none
        after_r = Signal()  # the last result of a group was R's: the next is S's, if there is one
        m.d.comb += [self.records.ready.eq(done), Cat(p.ready for p in self.i).eq(moves)]
        was_r = Mux(taken.any(), taken[0], after_r)
        m.d.sync += after_r.eq(was_r)

        # Two levels of logic: what is foretold, and whether there is room, is one; who is taken
        # from is another. The mapper makes all paths of the operator as long as the longest.
        room = self.room
        merges, passes = record.both, Cat(record.r, record.s)
        stars, heads, finals, star_goes, head_goes = (
            Signal(2, name=name) for name in ("stars", "heads", "finals", "star_goes", "head_goes")
        )
        for side, port in enumerate(self.i):
            m.d.comb += [
                stars[side].eq(port.ahead.star),
                heads[side].eq(port.ahead.result),
                star_goes[side].eq(stars[side] & room),
                head_goes[side].eq(heads[side] & room),
                finals[side].eq(port.ahead.final),
            ]
            other = 1 - side
            after_own = was_r if side == 0 else ~was_r
            blocked, idle = after_own & heads[other], ~port.coming

            def takes(star, head, side=side, other=other, blocked=blocked):
                return (
                    (merges & star & stars[other])
                    | (merges & head & ~blocked)
                    | (passes[side] & (star | head))
                )

            star, head = star_goes[side] | idle, head_goes[side] | idle
            m.d.sync += [
                taken[side].eq(takes(star_goes[side], head_goes[side])),
                moves[side].eq(takes(star, head) | (star & head)),
            ]
        ends = room & ((merges & stars.all()) | (passes & finals).any())
        m.d.sync += done.eq(ends | ~self.records.coming)

        valid, from_s, item = Signal(), Signal(), Signal(item_layout())
        shown = [port.payload for port in self.i]
        m.d.sync += [
            valid.eq(taken.any() & ~(taken.all() & shown[0].hidden)),
            from_s.eq(~taken[0]),
            item.eq(Mux(taken[0], *shown)),
        ]
        wait, waiting, of_s = Signal(), Signal(item_layout()), Signal()
        m.d.sync += [wait.eq(valid), waiting.eq(item), of_s.eq(from_s)]
        # A result is of the side of its stream; a star says itself what it closes.
        pair, combined = Signal.like(self.pairs[0]), Signal(self.joined.shape())
        m.d.comb += pair.eq(Mux(of_s, self.pairs[1], self.pairs[0]))
        leave(m, waiting, pair, combined)
        m.d.sync += [
            self.push.eq(wait),
            self.joined.eq(combined),
            self.joined.side.eq(Mux(waiting.star, waiting.side, of_s)),
        ]
        return m
