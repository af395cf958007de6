"""A queue without wide enables, at half the rate."""

from amaranth import Module, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Mailbox"]


class Mailbox(wiring.Component):
    """Queue wide payloads that come every second cycle at most.

    The output register is read from the memory again and again, and so needs no enable that waits
    for ``o.ready``; the price is a cycle without an offer after each payload. A payload pushed
    into an empty queue is visible two cycles later. ``i.ready``, ``o.valid`` and ``o.payload``
    come from flip-flops.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    depth : int
        Payloads that fit, at least 2.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Payloads to store, one per cycle until the queue is full.
    o : ``Out(stream.Signature(shape))``
        Payloads in order of arrival.
    level : ``Out(range(depth + 1))``
        Payloads in the queue, from flip-flops.
    """

    def __init__(self, shape, *, depth):
        if depth < 2:
            raise ValueError(f"a mailbox needs a depth of at least 2, not {depth!r}")
        self.shape = shape
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

        # Here and not in `elaborate`, so that a proof can speak of them.
        self._storage = Memory(
            shape=Shape.cast(shape).width,
            depth=depth,
            init=[],
            attrs={"ram_style": "distributed", "no_rw_check": 1},
        )
        self._head = Signal(range(depth))
        self._tail = Signal(range(depth))

    def elaborate(self, platform):
        m = Module()

        m.submodules.storage = self._storage
        w_port = self._storage.write_port()
        r_port = self._storage.read_port(domain="comb")
        payload = Signal(self.shape, reset_less=True)
        writable = Signal(init=1)
        pushed, popped = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(writable),
            self.o.payload.eq(payload),
            pushed.eq(self.i.valid & writable),
            popped.eq(self.o.valid & self.o.ready),
            w_port.addr.eq(self._tail),
            w_port.data.eq(self.i.payload),
            w_port.en.eq(writable),
            r_port.addr.eq(self._head),
        ]
        m.d.sync += [
            payload.eq(r_port.data),
            self.o.valid.eq((self.level != 0) & ~popped),
        ]

        for happens, place in ((pushed, self._tail), (popped, self._head)):
            with m.If(happens):
                m.d.sync += place.eq(place + 1)
                if self.depth & (self.depth - 1):
                    with m.If(place == self.depth - 1):
                        m.d.sync += place.eq(0)
        with m.If(pushed & ~popped):
            m.d.sync += [
                self.level.eq(self.level + 1),
                writable.eq(self.level != self.depth - 1),
            ]
        with m.Elif(popped & ~pushed):
            m.d.sync += [self.level.eq(self.level - 1), writable.eq(1)]
        return m
