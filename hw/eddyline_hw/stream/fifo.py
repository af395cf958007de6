"""Queues in look-up-table memory and in block memory."""

from amaranth import Module, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Fifo"]

# What Yosys calls the two kinds. Either is read into a register; a block memory has that register
# inside. Without the attribute Yosys is free to take a block memory for a shallow queue.
STYLES = {"lutram": "distributed", "bram": "block"}


class Fifo(wiring.Component):
    """Queue payloads between a producer and a consumer of the same clock.

    Throughput is one payload per cycle, also when full or empty; a payload pushed into an empty
    queue is visible two cycles later. ``i.ready`` and ``o.valid`` come from flip-flops, and so
    does ``o.payload``, except that a block memory has these flip-flops inside. Both kinds of
    memory behave alike, cycle by cycle.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    depth : int
        Payloads that fit, at least 3. One place of the memory is always free, and what lies in it
        does not matter: it is written in every cycle, so that no enable waits for ``i.valid``. The
        output register makes up for it.
    memory : str
        ``"lutram"`` for shallow queues, ``"bram"`` for deep ones.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Payloads to store. Stalls while the memory is full.
    o : ``Out(stream.Signature(shape))``
        Payloads in order of arrival.
    level : ``Out(range(depth))``
        Payloads behind the one on offer, from flip-flops.
    peak : ``Out(range(depth))``
        Largest ``level`` since reset, a cycle late; it tells whether ``depth`` was well chosen.
    """

    def __init__(self, shape, *, depth, memory="lutram"):
        if depth < 3:
            raise ValueError(f"a queue needs a depth of at least 3, not {depth!r}")
        if memory not in STYLES:
            raise ValueError(f"no memory called {memory!r} (known: {', '.join(sorted(STYLES))})")
        self.shape = shape
        self.depth = depth
        self.memory = memory
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth)),
                "peak": Out(range(depth)),
            }
        )

        # Here and not in `elaborate`, so that a proof can speak of them.
        self._storage = Memory(
            shape=Shape.cast(shape).width,
            depth=depth,
            init=[],
            # A place is never read in the cycle in which it is written, which Yosys cannot see: it
            # would build a bypass around a block memory.
            attrs={"ram_style": STYLES[memory], "no_rw_check": 1},
        )
        self._w_port = self._storage.write_port()
        self._r_port = self._storage.read_port(domain="comb")
        self._head = Signal(range(depth))
        self._tail = Signal(range(depth))
        self._readable = Signal()  # the memory is not empty

    def elaborate(self, platform):
        m = Module()

        m.submodules.storage = self._storage
        w_port = self._w_port
        r_port = self._r_port

        writable = Signal(init=1)
        payload = Signal(self.shape, reset_less=True)
        write = Signal()
        read = Signal()

        m.d.comb += [
            self.i.ready.eq(writable),
            self.o.payload.eq(payload),
            write.eq(self.i.valid & self.i.ready),
            read.eq(self._readable & (~self.o.valid | self.o.ready)),
            w_port.addr.eq(self._tail),
            w_port.data.eq(self.i.payload),
            w_port.en.eq(1),
            r_port.addr.eq(self._head),
        ]
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [self.o.valid.eq(self._readable), payload.eq(r_port.data)]

        def advance(place):
            with m.If(place == self.depth - 1):
                m.d.sync += place.eq(0)
            with m.Else():
                m.d.sync += place.eq(place + 1)

        with m.If(write):
            advance(self._tail)
        with m.If(read):
            advance(self._head)

        # The flags are computed a cycle ahead, so that neither side waits for a comparison.
        with m.If(write & ~read):
            m.d.sync += [
                self.level.eq(self.level + 1),
                self._readable.eq(1),
                writable.eq(self.level != self.depth - 2),
            ]
        with m.Elif(read & ~write):
            m.d.sync += [
                self.level.eq(self.level - 1),
                self._readable.eq(self.level != 1),
                writable.eq(1),
            ]

        with m.If(self.level > self.peak):
            m.d.sync += self.peak.eq(self.level)

        return m
