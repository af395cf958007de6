"""The operator's entrance: every packet says how its results are to be ordered."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import packet_layout, record_layout, request_layout
from eddyline_hw.splitjoin.precision import LOG_BITS, Precision, precision_layout

__all__ = ["Distributor"]


class Distributor(wiring.Component):
    """Turn messages into packets for the cores and records for the combiner.

    The precision travels with the packets, so that all cores change it at the same tuple. When the
    setting changes, a punctuation of its own goes first, which tells the mergers how to go on. It
    ends a group that is open. Its star is hidden, as there is no arrival that it could name: the
    next star that is shown closes the arrivals of that group, too.

    Members
    -------
    i : ``In(stream.Signature(request_layout()))``
        What steers of the messages.
    room : ``In(1)``
        Packets and records can be sent.
    push, packet : Out
        A packet per message, a cycle later, from flip-flops.
    notes, record : Out
        A record for each arrival that is closed on its own, each group of arrivals, and each
        punctuation outside a group; in the cycle of its first packet, from flip-flops.
    precision : ``In(precision_layout())``
        Settings, from flip-flops. ``every`` is at least 1. A change holds from the next cycle on.
    inner, log, interval : In
        The same if ``adaptive``, from flip-flops, too: inner order or outer, intervals between
        stars, and arrivals per group.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(request_layout())),
                "room": In(1),
                "push": Out(1),
                "packet": Out(packet_layout()),
                "notes": Out(1),
                "record": Out(record_layout()),
                "precision": In(precision_layout()),
                "inner": In(1),
                "log": In(LOG_BITS),
                "interval": In(16),
            }
        )

    def elaborate(self, platform):
        m = Module()

        asked, current = self.precision, Signal(precision_layout())
        wanted = Signal(precision_layout())
        adapts, adapted = asked.adaptive, Mux(self.inner, Precision.INNER, Precision.OUTER)
        m.d.comb += [
            wanted.eq(asked),
            wanted.mode.eq(Mux(adapts, adapted, asked.mode)),
            wanted.log.eq(Mux(adapts, self.log, asked.log)),
            wanted.every.eq(Mux(adapts, self.interval, asked.every)),
        ]
        # Arrivals of the group in progress, and the next two: counted upwards, so that the count
        # does not wait for the choice of a size to count down from.
        count, size = Signal(16, init=2), Signal(16)
        lone = Signal()  # one more, and the group is complete
        open_ = Signal()  # a group has begun and is not complete
        stale = Signal()

        takes, switches = Signal(), Signal()
        m.d.comb += [
            takes.eq(self.i.valid & self.room & ~stale),
            switches.eq(self.room & stale),
            self.i.ready.eq(self.room & ~stale),
        ]

        # How many arrivals the next group has, and whether that is one, is known before it begins.
        one, one_asked, one_current = Signal(), Signal(), Signal()
        one_wanted = Mux(adapts, one, one_asked)
        m.d.sync += [one.eq(self.interval == 1), one_asked.eq(asked.every == 1)]
        sizes = {name: Signal(16, name=f"{name}_size") for name in ("wanted", "current")}
        singles = {name: Signal(name=f"{name}_single") for name in sizes}
        m.d.sync += [
            sizes["wanted"].eq(wanted.every),
            sizes["current"].eq(Mux(switches, wanted.every, current.every)),
            singles["wanted"].eq(one_wanted),
            singles["current"].eq(Mux(switches, one_wanted, one_current)),
        ]

        # Compared first and decided then; what was compared before a change is out of date. What
        # is asked for is compared before it is chosen, so that nothing waits for the choice.
        differences = [wanted.mode != current.mode, adapts != current.adaptive]
        for applies, source in ((~adapts, asked), (adapts, self)):
            every = source.every if source is asked else self.interval
            differences += [
                applies & (source.log != current.log),
                applies & (every[:8] != current.every[:8]),
                applies & (every[8:] != current.every[8:]),
            ]
        # The first of two changes right behind each other may have been taken for the second.
        differences.append(singles["wanted"] != one_current)
        unlike, switched = Signal(len(differences)), Signal()
        m.d.sync += [
            unlike.eq(Cat(differences)),
            switched.eq(switches),
            stale.eq(unlike.any() & ~switches & ~switched),
        ]

        begins = Signal()

        def begin(name):
            m.d.sync += [size.eq(sizes[name]), lone.eq(singles[name])]
            m.d.comb += begins.eq(1)

        message, packet = self.i.payload, self.packet
        outer, inner = current.mode == Precision.OUTER, current.mode == Precision.INNER
        alone, fills = Signal(), Signal()
        m.d.comb += [
            alone.eq(~message.star & (inner | (outer & ~open_ & lone))),
            fills.eq(outer & open_ & lone),
        ]
        m.d.sync += [
            self.push.eq(takes | switches),
            packet.tuple.eq(~message.star & ~stale),
            packet.side.eq(message.side),
            packet.closes.eq(message.star | stale | alone | fills),
            packet.both.eq(stale | ~alone),
            packet.inner.eq(Mux(stale, wanted.mode == Precision.INNER, inner)),
            packet.log.eq(current.log),
            packet.sync.eq(message.star & ~stale),
            packet.hidden.eq(stale),
            packet.flush.eq(message.flush & message.star & ~stale),
            self.notes.eq((takes | switches) & ~open_),
            self.record.both.eq(stale | ~alone),
            self.record.r.eq(~stale & alone & ~message.side),
            self.record.s.eq(~stale & alone & message.side),
        ]

        with m.If(switches):
            m.d.sync += [current.eq(wanted), one_current.eq(one_wanted), open_.eq(0)]
            begin("wanted")
        with m.Elif(takes):
            with m.If(alone | message.star | fills):
                m.d.sync += open_.eq(0)
                begin("current")
            with m.Else():
                m.d.sync += [open_.eq(1), lone.eq(count == size)]
        # On its own, so that it is a reset of the count and no choice behind the carry.
        with m.If(takes):
            m.d.sync += count.eq(count + 1)
        with m.If(begins):
            m.d.sync += count.eq(2)
        return m
