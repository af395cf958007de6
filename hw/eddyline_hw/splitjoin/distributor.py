"""The operator's entrance: every packet says how its results are to be ordered."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.layouts import message_layout
from eddyline_hw.splitjoin.layouts import packet_layout, record_layout
from eddyline_hw.splitjoin.precision import Precision, precision_layout

__all__ = ["Distributor"]


class Distributor(wiring.Component):
    """Turn messages into packets for the cores and records for the combiner.

    The precision travels with the packets, so that all cores change it at the same tuple. When the
    setting changes, a punctuation of its own goes first: it closes a group that is open, and tells
    the mergers how to go on. If there was nothing to close its star is hidden.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.

    Members
    -------
    i : ``In(stream.Signature(message_layout(plan)))``
    o : ``Out(stream.Signature(packet_layout(plan)))``
        A packet per message, from flip-flops, a cycle later.
    records : ``Out(stream.Signature(record_layout()))``
        A record for each arrival that is closed on its own, each group of arrivals, and each
        punctuation outside a group; always before the packet has left. ``valid`` and ``payload``
        depend on ``o.ready``: for a queue whose ``ready`` is its own.
    precision : ``In(precision_layout())``
        Settings, from flip-flops. ``every`` is at least 1. A change holds from the next cycle on.
    interval : ``In(16)``
        Arrivals per group if ``adaptive``; taken over when a group begins.
    """

    def __init__(self, plan):
        self.plan = plan
        super().__init__(
            {
                "i": In(stream.Signature(message_layout(plan))),
                "o": Out(stream.Signature(packet_layout(plan))),
                "records": Out(stream.Signature(record_layout())),
                "precision": In(precision_layout()),
                "interval": In(16),
            }
        )

    def elaborate(self, platform):
        m = Module()

        wanted, current = self.precision, Signal(precision_layout())
        size, left = Signal(16), Signal(16)  # arrivals of a group; those that are still to come
        single = Signal()  # a group is one arrival
        open_ = Signal()  # a group has begun and is not closed
        stale = Signal()

        takes, switches, advance = Signal(), Signal(), Signal()
        m.d.comb += [
            advance.eq((~self.o.valid | self.o.ready) & self.records.ready),
            takes.eq(self.i.valid & advance & ~stale),
            switches.eq(advance & stale),
            self.i.ready.eq(advance & ~stale),
        ]

        differs = Signal()
        m.d.comb += differs.eq(
            (wanted.mode != current.mode)
            | (wanted.log != current.log)
            | (wanted.adaptive != current.adaptive)
            | (~wanted.adaptive & (wanted.every != current.every))
        )
        m.d.sync += stale.eq(differs & ~switches)

        def begin(precision):
            """Fix the size of the next group."""
            count = Mux(precision.adaptive, self.interval, precision.every)
            m.d.sync += [size.eq(count), single.eq(count == 1)]

        message, packet = self.i.p, self.o.p
        outer, inner = current.mode == Precision.OUTER, current.mode == Precision.INNER
        alone, fills = Signal(), Signal()
        m.d.comb += [
            alone.eq(~message.star & (inner | (outer & single))),
            fills.eq(outer & open_ & (left == 1)),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(advance):
            m.d.sync += [
                self.o.valid.eq(self.i.valid | stale),
                packet.tuple.eq(~message.star & ~stale),
                packet.side.eq(message.side),
                packet.closes.eq(message.star | stale | alone | fills),
                packet.both.eq(stale | ~alone),
                packet.inner.eq(Mux(stale, wanted.mode == Precision.INNER, inner)),
                packet.log.eq(current.log),
                packet.sync.eq(message.star & ~stale),
                packet.hidden.eq(stale & ~open_),
                packet.flush.eq(message.flush & message.star & ~stale),
                packet.entry.eq(message.entry),
            ]
        m.d.comb += [
            self.records.valid.eq((takes | switches) & ~open_),
            self.records.p.side.eq(message.side),
            self.records.p.both.eq(stale | ~alone),
        ]

        with m.If(switches):
            m.d.sync += [current.eq(wanted), open_.eq(0)]
            begin(wanted)
        with m.Elif(takes):
            with m.If(alone | message.star | fills):
                m.d.sync += open_.eq(0)
                begin(current)
            with m.Else():
                m.d.sync += [open_.eq(1), left.eq(Mux(open_, left, size) - 1)]
        return m
