"""A register that tells what it is going to hold."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Preview", "foretold"]


def foretold(shape):
    """Return the signature of a stream whose next offer is known.

    ``valid``, ``ready`` and ``payload`` are those of a stream; ``coming`` and ``ahead`` are
    ``valid`` and ``payload`` of the next cycle. Whoever decides by these has the decision in a
    flip-flop when it takes effect. They depend on ``ready``, which should come from one; ``behind``
    does not, it is what is ``ahead`` if the offer is taken, or if there is none.

    ``ready`` is set whenever ``valid`` is not: whoever takes knows that there is nothing, and so
    nobody has to ask for both.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "payload": Out(shape),
            "ready": In(1),
            "coming": Out(1),
            "ahead": Out(shape),
            "behind": Out(shape),
        }
    )


class Preview(wiring.Component):
    """Pass payloads on, a cycle later, and tell in each cycle what is on offer in the next one.

    Throughput is one payload per cycle.

    Parameters
    ----------
    shape : shape-like
        Payload shape.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        ``ready`` is ``o.ready``. A bit that is 0 while nothing is on offer is so at the
        output, too.
    o : ``Out(foretold(shape))``
    """

    latency = 1

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(foretold(shape))})

    def elaborate(self, platform):
        m = Module()
        payload = Signal.like(self.o.payload)
        m.d.comb += [
            self.i.ready.eq(self.o.ready),
            self.o.coming.eq(~self.i.ready | self.i.valid),
            self.o.behind.eq(self.i.payload),
            self.o.ahead.eq(Mux(self.i.ready, self.o.behind, payload)),
            self.o.payload.eq(payload),
        ]
        m.d.sync += [self.o.valid.eq(self.o.coming), payload.eq(self.o.ahead)]
        return m
