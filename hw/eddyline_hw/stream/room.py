"""A queue that tells early that it is full."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.trusting import TrustingFifo

__all__ = ["RoomQueue"]


class RoomQueue(wiring.Component):
    """Queue payloads that cannot be stopped on their way here.

    Nobody waits for ``ready`` to push. Instead ``room`` is told early enough for all that is under
    way, so that between the look at it and the push there can be as many registers as it takes. A
    payload pushed into an empty queue is on offer two cycles later.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    depth : int, optional
        Places, a power of two; if left out, so many that a queue which is emptied in every cycle
        does not run dry before it is refilled after a stop.
    flight : int
        Most cycles from a look at ``room`` to the push that comes of it.
    clears : tuple of str
        Bits of the payload that are 0 while nothing is on offer.

    Members
    -------
    push, payload : In
        A payload comes in this cycle.
    room : ``Out(1)``
        Another payload may be sent here. From a flip-flop.
    o : ``Out(stream.Signature(shape))``
        Payloads in order of arrival, from flip-flops.
    peak : Out
        Most payloads that ever waited behind the one on offer, some cycles late.
    overrun : ``Out(1)``
        ``flight`` was wrong: something was lost. Stays set until reset.
    """

    # Pushes that are not known of yet, and places that a queue keeps free.
    BEHIND = 4
    latency = 2

    @classmethod
    def depth_for(cls, flight):
        """Return the least power of two that does for full rate."""
        # There and back, the cycles in which the level is noticed, and those of the queue.
        return 1 << (2 * flight + cls.BEHIND + 4).bit_length()

    def __init__(self, shape, *, depth=None, flight, clears=()):
        depth = depth or self.depth_for(flight)
        if depth <= self.BEHIND + flight:
            raise ValueError(
                f"a queue with {flight} payloads under way needs a depth of more than "
                f"{self.BEHIND + flight}, not {depth!r}"
            )
        self.depth = depth
        self.flight = flight
        self._fifo = TrustingFifo(shape, depth=depth, clears=clears)
        super().__init__(
            {
                "push": In(1),
                "payload": In(shape),
                "room": Out(1, init=1),
                "o": Out(stream.Signature(shape)),
                "peak": Out(range(depth)),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = self._fifo
        m.d.comb += [
            fifo.i.valid.eq(self.push),
            fifo.i.payload.eq(self.payload),
        ]
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        allowed = self.depth - self.BEHIND - self.flight
        m.d.sync += self.room.eq(~fifo.levels[allowed - 1])
        with m.If(fifo.levels[-1]):
            m.d.sync += self.overrun.eq(1)
        # The peak follows what was seen, in steps of four cycles: whether it has to grow is found
        # in two of them, a piece of the levels first.
        seen, turn, grows = Signal.like(fifo.levels), Signal(2), Signal()
        pieces = [seen[start : start + 4] for start in range(0, self.depth, 4)]
        found = Signal(len(pieces))
        m.d.sync += [
            seen.eq(seen | fifo.levels),
            turn.eq(turn + 1),
            found.eq(Cat(piece.bit_select(self.peak[:2], 1) for piece in pieces)),
            grows.eq(found.bit_select(self.peak[2:], 1) & (turn == 0)),
        ]
        with m.If(grows):
            m.d.sync += self.peak.eq(self.peak + 1)
        return m
