"""Queues whose producer knows that there is room."""

from amaranth import Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.fifo import STYLES

__all__ = ["TrustingFifo", "rise_and_fall"]


def rise_and_fall(m, levels, *, enters, leaves):
    """Keep count of what enters and leaves: bit ``n`` of ``levels`` says that it is more than n.

    Whatever is asked of the count is a flip-flop, and none waits for more than one lookup table
    behind ``leaves``, which may be decided late: no comparison of places, no carry chain, and no
    enable, which would be one more lookup table on a long way.
    """
    above, below = levels[1:], Cat(Const(1, 1), levels[:-1])
    m.d.sync += levels.eq(Mux(enters, Mux(leaves, levels, below), Mux(leaves, above, levels)))


class TrustingFifo(wiring.Component):
    """Queue payloads of a producer that counts on room, in look-up-table memory.

    Throughput is one payload per cycle; a payload pushed into an empty queue is visible two cycles
    later.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    depth : int
        Places, a power of two of at least 4. One of them is always free, and is written in every
        cycle; the output register makes up for it.
    clears : tuple of str
        Bits of the payload that are 0 while nothing is on offer.

    Members
    -------
    i : ``In(stream.Signature(shape, always_ready=True))``
        Payloads to store.
    o : ``Out(stream.Signature(shape))``
        Payloads in order of arrival, from flip-flops.
    levels : ``Out(depth)``
        Bit n: more than n payloads are behind the one on offer. With the last bit, one is lost.
    """

    def __init__(self, shape, *, depth, clears=()):
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"the depth must be a power of two of at least 4, not {depth!r}")
        self.shape = shape
        self.depth = depth
        self.clears = clears
        super().__init__(
            {
                "i": In(stream.Signature(shape, always_ready=True)),
                "o": Out(stream.Signature(shape)),
                "levels": Out(depth),
            }
        )
        # Here and not in `elaborate`, so that a proof can speak of them.
        self._storage = Memory(
            shape=Shape.cast(shape).width,
            depth=depth,
            init=[],
            attrs={"ram_style": STYLES["lutram"], "no_rw_check": 1},
        )
        self._head = Signal(range(depth))
        self._tail = Signal(range(depth))

    def elaborate(self, platform):
        m = Module()

        m.submodules.storage = storage = self._storage
        w_port, r_port = storage.write_port(), storage.read_port(domain="comb")
        payload = Signal(self.shape, reset_less=not self.clears)
        readable, moves, read = self.levels[0], Signal(), Signal()
        m.d.comb += [
            moves.eq(~self.o.valid | self.o.ready),
            read.eq(readable & moves),
            w_port.addr.eq(self._tail),
            w_port.data.eq(self.i.payload),
            w_port.en.eq(1),
            r_port.addr.eq(self._head),
            self.o.payload.eq(payload),
        ]
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(readable), payload.eq(r_port.data)]
            if self.clears:
                with m.If(~readable):
                    m.d.sync += [payload[name].eq(0) for name in self.clears]
        with m.If(read):
            m.d.sync += self._head.eq(self._head + 1)
        with m.If(self.i.valid):
            m.d.sync += self._tail.eq(self._tail + 1)
        rise_and_fall(m, self.levels, enters=self.i.valid, leaves=read)
        return m
