"""Two streams of results into one."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import item_layout, joined_layout, record_layout
from eddyline_hw.stream.buffer import Buffer

__all__ = ["Combiner", "leave"]


def leave(m, item, port):
    """Show at ``port`` what of an item is for the outside."""
    m.d.comb += [port[name].eq(item[name]) for name, _ in port.shape()]


class Combiner(wiring.Component):
    """Bring results of R arrivals and of S arrivals together as the records say.

    For a record of one side, all of that side's stream up to a final star is passed on. With
    ``both``, the two streams are merged, fairly, until both show a star: these leave as one. One
    item per cycle, also from one record to the next; latency is two cycles.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    i : ``In(stream.Signature(item_layout(plan, carried))).array(2)``
        Results of R arrivals, of S arrivals.
    records : ``In(stream.Signature(record_layout()))``
        What to do, in the order of arrivals.
    o : ``Out(stream.Signature(joined_layout(plan, carried)))``
        From flip-flops. Hidden stars are left out.
    """

    def __init__(self, plan, *, carried=()):
        self.plan = plan
        self.carried = tuple(carried)
        super().__init__(
            {
                "i": In(stream.Signature(item_layout(plan, carried))).array(2),
                "records": In(stream.Signature(record_layout())),
                "o": Out(stream.Signature(joined_layout(plan, carried))),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.buffer = buffer = Buffer(self.o.p.shape())
        wiring.connect(m, buffer.o, wiring.flipped(self.o))

        record, serving = Signal(record_layout()), Signal()
        after_r = Signal()  # the last result of a group was R's: the next is S's, if there is one
        here, stars, heads, taken = (Signal(2, name=n) for n in ("here", "stars", "heads", "taken"))
        free, ends = Signal(), Signal()
        for side, port in enumerate(self.i):
            m.d.comb += [
                here[side].eq(port.valid & serving),
                stars[side].eq(here[side] & port.p.star),
                heads[side].eq(here[side] & ~port.p.star),
                port.ready.eq(taken[side] & free),
            ]
        with m.If(record.both):
            with m.If(stars.all()):
                m.d.comb += [taken.eq(0b11), ends.eq(1)]
            with m.Else():
                m.d.comb += [
                    taken[0].eq(heads[0] & ~(after_r & heads[1])),
                    taken[1].eq(heads[1] & (after_r | ~heads[0])),
                ]
        with m.Else():
            for side, port in enumerate(self.i):
                with m.If(record.side == side):
                    m.d.comb += [
                        taken[side].eq(here[side]),
                        ends.eq(stars[side] & port.p.final),
                    ]

        m.d.comb += self.records.ready.eq(~serving | (ends & free))
        with m.If(self.records.ready):
            m.d.sync += [serving.eq(self.records.valid), record.eq(self.records.p)]
        with m.If(free & (taken != 0)):
            m.d.sync += after_r.eq(taken[0])

        # Both heads are copied, and which of them counts is a flip-flop: nothing wide waits for
        # the decision.
        copies = [Signal.like(port.payload, name=f"copy{n}") for n, port in enumerate(self.i)]
        valid, from_s = Signal(), Signal()
        m.d.comb += free.eq(~valid | buffer.i.ready)
        with m.If(free):
            hidden = self.i[0].p.hidden & taken.all()
            m.d.sync += [valid.eq((taken != 0) & ~hidden), from_s.eq(~taken[0])]
            m.d.sync += [copy.eq(port.payload) for copy, port in zip(copies, self.i, strict=True)]
        m.d.comb += buffer.i.valid.eq(valid)
        chosen = Signal.like(copies[0], name="chosen")
        m.d.comb += chosen.eq(Mux(from_s, copies[1], copies[0]))
        leave(m, chosen, buffer.i.p)
        return m
