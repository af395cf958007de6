"""Queues in look-up-table memory and in block memory."""

from amaranth import Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Fifo"]

# What Yosys calls the two kinds. Either is read into a register; a block memory has that register
# inside. Without the attribute Yosys is free to take a block memory for a shallow queue.
STYLES = {"lutram": "distributed", "bram": "block"}


class Fifo(wiring.Component):
    """Queue payloads between a producer and a consumer of the same clock.

    Throughput is one payload per cycle, also when nearly full or empty; a payload pushed into an
    empty queue is visible two cycles later. ``i.ready`` and ``o.valid`` come from flip-flops, and
    so does ``o.payload``, except that a block memory has these flip-flops inside. Both kinds of
    memory behave alike, cycle by cycle.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    depth : int
        Payloads that fit, at least 4; one less where they come with gaps. One place of the memory
        is always free, and what lies in it does not matter: it is written in every cycle, so that
        no enable waits for ``i.valid``. The output register makes up for it.
    memory : str
        ``"lutram"`` for shallow queues, ``"bram"`` for deep ones.
    clears : tuple of str
        Bits of the payload that are 0 while nothing is on offer.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Payloads to store. Stalls while the memory is full.
    o : ``Out(stream.Signature(shape))``
        Payloads in order of arrival.
    level : ``Out(range(depth))``
        Payloads behind the one on offer, a cycle late.
    peak : ``Out(range(depth))``
        Largest ``level`` since reset, a cycle late; it tells whether ``depth`` was well chosen.
    """

    def __init__(self, shape, *, depth, memory="lutram", clears=()):
        if depth < 4:
            raise ValueError(f"a queue needs a depth of at least 4, not {depth!r}")
        if memory not in STYLES:
            raise ValueError(f"no memory called {memory!r} (known: {', '.join(sorted(STYLES))})")
        self.shape = shape
        self.depth = depth
        self.memory = memory
        self.clears = clears
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
        # Where the places will be in the next cycle, and the next but one, is known: the flags wait
        # for a comparison of registers and then for whether something is written or read.
        self._after_head = Signal(range(depth), init=1)
        self._after_tail = Signal(range(depth), init=1)
        self._beyond = Signal(range(depth), init=2)
        self._readable = Signal()  # the memory is not empty
        self._wrote = Signal(name="wrote")  # in the last cycle: what `level` does not know yet
        self._took = Signal(name="took")

    def elaborate(self, platform):
        m = Module()

        m.submodules.storage = self._storage
        w_port = self._w_port
        r_port = self._r_port

        writable = Signal(init=1)
        payload = Signal(self.shape, reset_less=not self.clears)
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
            if self.clears:
                with m.If(~self._readable):
                    m.d.sync += [payload[name].eq(0) for name in self.clears]

        after_head, after_tail, beyond = self._after_head, self._after_tail, self._beyond

        def following(place):
            return Mux(place == self.depth - 1, 0, place + 1)

        with m.If(read):
            m.d.sync += [self._head.eq(after_head), after_head.eq(following(after_head))]
        with m.If(write):
            m.d.sync += [
                self._tail.eq(after_tail),
                after_tail.eq(beyond),
                beyond.eq(following(beyond)),
            ]
        m.d.sync += [
            self._readable.eq(write | Mux(read, after_head != self._tail, self._readable)),
            # Two places are free, and one of them may just be written: that nothing waits for
            # `i.valid` is worth a place.
            writable.eq((after_tail != self._head) & (beyond != self._head)),
        ]

        wrote, took = self._wrote, self._took
        m.d.sync += [wrote.eq(write), took.eq(read)]
        with m.If(wrote & ~took):
            m.d.sync += self.level.eq(self.level + 1)
        with m.If(took & ~wrote):
            m.d.sync += self.level.eq(self.level - 1)
        with m.If(self.level > self.peak):
            m.d.sync += self.peak.eq(self.level)

        return m
