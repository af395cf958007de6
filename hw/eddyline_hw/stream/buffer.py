"""Decoupling of a producer from a consumer by registers alone."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Buffer"]


class Buffer(wiring.Component):
    """Cut every path between a producer and a consumer.

    ``i.ready``, ``o.valid`` and ``o.payload`` all come from flip-flops. Throughput is one payload
    per cycle, latency one cycle, capacity two payloads; order is kept.

    Parameters
    ----------
    shape : shape-like
        Payload shape.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Payloads to pass on.
    o : ``Out(stream.Signature(shape))``
        The same payloads, a cycle later.
    """

    def __init__(self, shape):
        self.shape = shape
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
            }
        )

        # A payload may arrive in the very cycle in which the consumer stalls, because the
        # producer learns of the stall only a cycle later: it waits in `_spare`. Here and not in
        # `elaborate`, so that a proof can speak of it.
        self._room = Signal(init=1)
        self._spare = Signal(shape, reset_less=True)

    def elaborate(self, platform):
        m = Module()

        payload = Signal(self.shape, reset_less=True)

        m.d.comb += [self.i.ready.eq(self._room), self.o.payload.eq(payload)]

        with m.If(self._room):
            m.d.sync += self._spare.eq(self.i.payload)

        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [self._room.eq(1), self.o.valid.eq(self.i.valid | ~self._room)]
            with m.If(self._room):
                m.d.sync += payload.eq(self.i.payload)
            with m.Else():
                m.d.sync += payload.eq(self._spare)
        with m.Elif(self.i.valid):
            m.d.sync += self._room.eq(0)

        return m
