"""A queue that tells early that it is full."""

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.fifo import Fifo

__all__ = ["RoomQueue"]


def _below(value, limit):
    """Compare with a constant in a lookup table or two: ``<`` would become a carry chain."""
    below = Const(0)
    for number, bit in enumerate(value):
        below = ~bit | below if limit >> number & 1 else ~bit & below
    return below


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
        Places; if left out, so many that a queue which is emptied in every cycle does not run dry
        before it is refilled after a stop.
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
        Most payloads that ever waited behind the one on offer.
    overrun : ``Out(1)``
        ``flight`` was wrong: something was lost. Stays set until reset.
    """

    # Pushes that the level does not know of yet, and places that a queue keeps free.
    BEHIND = 5
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
        self._fifo = Fifo(shape, depth=depth, trusting=True, clears=clears)
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
        self._level = Signal.like(self._fifo.level)  # here, so that a proof can speak of it

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = self._fifo
        m.d.comb += [
            fifo.i.valid.eq(self.push),
            fifo.i.payload.eq(self.payload),
        ]
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        # The queue's own level, by one carry chain with no choice behind it: 1, or -1, or 0 is
        # added, which is decided behind registers.
        level = self._level
        falls = (fifo.took & ~fifo.wrote).replicate(len(level) - 1)
        m.d.sync += level.eq(level + Cat(fifo.wrote ^ fifo.took, falls))
        m.d.sync += self.room.eq(_below(level, self.depth - self.BEHIND - self.flight))
        with m.If(level == self.depth):
            m.d.sync += self.overrun.eq(1)
        # Later, but apart from the rest. The level changes by one at a time, so what comes late is
        # never less than the peak.
        seen, held, higher = Signal.like(self.peak), Signal.like(self.peak), Signal()
        m.d.sync += [seen.eq(level), held.eq(seen), higher.eq(seen > self.peak)]
        with m.If(higher):
            m.d.sync += self.peak.eq(held)
        return m
