"""A queue in which little decides and much follows."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.preview import Preview, foretold
from eddyline_hw.stream.room import RoomQueue
from eddyline_hw.window.banks import Banks

__all__ = ["TicketQueue"]


class TicketQueue(wiring.Component):
    """Queue payloads of which only a few bits, the head, steer anything.

    Whoever takes from the queue decides by heads. A body is left where it is and read by its place
    in every cycle, so that it follows its head two cycles later: no wide register has an enable
    that waits for a decision. Heads are queued as in :class:`RoomQueue`, and a cycle longer if they
    are foretold.

    Parameters
    ----------
    head, body : shape-like
        What decides, and what follows.
    depth : int, optional
        Places; a power of two. If left out, that of a :class:`RoomQueue`.
    flight : int
        Most cycles from a look at ``room`` to the push that comes of it.
    lag : int
        Cycles from the push of a head to its body, at most 2, or 1 if nothing is foretold.
    foretells : bool
        Whoever takes from the queue wants to know of heads a cycle ahead.
    clears : tuple of str
        Bits of the head that are 0 while nothing is on offer.

    Members
    -------
    push, head : In
        A payload comes in this cycle.
    body : In
        The body of the head that came ``lag`` cycles ago.
    room : ``Out(1)``
        Another payload may be sent here. From a flip-flop.
    o : ``Out(foretold(head))``, or ``Out(stream.Signature(head))`` if not ``foretells``
        Heads in order of arrival, from flip-flops.
    follows : Out
        The body of the head that was on offer two cycles ago.
    peak, overrun : Out
        As of :class:`RoomQueue`.
    """

    latency = RoomQueue.latency + Preview.latency

    def __init__(self, head, body, *, depth=None, flight, lag=0, foretells=True, clears=()):
        depth = depth or RoomQueue.depth_for(flight)
        if depth & (depth - 1):
            raise ValueError(f"a queue of tickets needs a power of two as its depth, not {depth!r}")
        if lag not in range(2 + foretells):
            raise ValueError(f"a body follows its head by 0 to {1 + foretells} cycles, not {lag!r}")
        self.depth = depth
        self.lag = lag
        self._heads = RoomQueue(head, depth=depth, flight=flight, clears=clears)
        self._preview = Preview(head) if foretells else None
        super().__init__(
            {
                "push": In(1),
                "head": In(head),
                "body": In(body),
                "room": Out(1),
                "o": Out(foretold(head) if foretells else stream.Signature(head)),
                "follows": Out(body),
                "peak": Out(range(depth)),
                "overrun": Out(1),
            }
        )
        # Here and not in `elaborate`, so that a proof can speak of them.
        self._bodies = Banks(body, depth=depth, memory="lutram")
        self._next = Signal(range(depth))  # where the next body goes
        self._place = Signal(range(depth))  # of the body whose head is on offer
        self._was = Signal(range(depth))  # that, a cycle ago
        self._after = Signal(range(depth), init=1)  # the place behind that
        self._took = Signal()  # a head was taken then

    def elaborate(self, platform):
        m = Module()

        m.submodules.heads = heads = self._heads
        m.submodules.bodies = bodies = self._bodies
        m.d.comb += [
            heads.push.eq(self.push),
            heads.payload.eq(self.head),
            self.room.eq(heads.room),
            self.peak.eq(heads.peak),
            self.overrun.eq(heads.overrun),
            # The next place is free: what is written there before its time does not matter.
            bodies.w_en.eq(1),
            bodies.w_addr.eq(self._next),
            bodies.w_data.eq(self.body),
            bodies.r_addr.eq(self._place),
            self.follows.eq(bodies.r_data),
        ]
        offers = heads.o
        if self._preview:
            m.submodules.preview = preview = self._preview
            wiring.connect(m, heads.o, preview.i)
            offers = preview.o
        wiring.connect(m, offers, wiring.flipped(self.o))

        # Bodies are far from whoever decides: the decision has a cycle for the way.
        m.d.comb += self._place.eq(Mux(self._took, self._after, self._was))
        m.d.sync += [self._took.eq(self.o.valid & self.o.ready), self._was.eq(self._place)]
        with m.If(self._took):
            m.d.sync += self._after.eq(self._after + 1)
        landed = self.push
        for cycle in range(self.lag):
            m.d.sync += (later := Signal(name=f"landed{cycle}")).eq(landed)
            landed = later
        with m.If(landed):
            m.d.sync += self._next.eq(self._next + 1)
        return m
