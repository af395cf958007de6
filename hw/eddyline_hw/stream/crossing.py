"""A queue between two clocks."""

from amaranth import Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["AsyncFifo"]


class AsyncFifo(wiring.Component):
    """Take payloads from one clock domain into another.

    Nothing is assumed about the two clocks. Once pointers have crossed, throughput is one payload
    per cycle of the slower clock if ``depth`` is at least 8: a place that was read becomes free
    four cycles later. ``i.ready``, ``o.valid`` and ``o.payload`` come from flip-flops. The two
    domains are to be reset together.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    depth : int
        Payloads that fit, at least 2, rounded up to a power of two. A place of the memory is kept
        free, if payloads come one by one; the output register makes up for it.
    i_domain, o_domain : str
        Clock domains of ``i`` and ``o``.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Payloads to store, in ``i_domain``.
    o : ``Out(stream.Signature(shape))``
        Payloads in order of arrival, in ``o_domain``.
    """

    def __init__(self, shape, *, depth, i_domain="sync", o_domain):
        if depth < 2:
            raise ValueError(f"a queue between clocks needs a depth of at least 2, not {depth!r}")
        self.shape = shape
        self.depth = 1 << (depth - 1).bit_length()
        self.i_domain = i_domain
        self.o_domain = o_domain
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.storage = storage = Memory(
            shape=Shape.cast(self.shape).width,
            depth=self.depth,
            init=[],
            attrs={"ram_style": "distributed", "no_rw_check": 1},
        )
        w_port = storage.write_port(domain=self.i_domain)
        r_port = storage.read_port(domain="comb")
        payload = Signal(self.shape, reset_less=True)
        written, read = Signal(), Signal()
        free = ~self.o.valid | self.o.ready
        tail, tail_gray, tail_next = self._pointer(m, self.i_domain, "tail", written)
        head, head_gray, head_next = self._pointer(m, self.o_domain, "head", read)

        # Each side learns of the other late, and then believes the queue fuller, or emptier, than
        # it is: that is safe. A queue is full where Gray-coded pointers differ in both top bits.
        writable, readable = Signal(init=1), Signal()
        head_seen, tail_seen = Signal.like(head_gray), Signal.like(tail_gray)
        m.submodules.to_writer = FFSynchronizer(
            head_gray, head_seen, o_domain=self.i_domain, reset_less=False
        )
        m.submodules.to_reader = FFSynchronizer(
            tail_gray, tail_seen, o_domain=self.o_domain, reset_less=False
        )
        full = head_seen ^ (3 << len(head_seen) - 2)
        # One place stays free, so that nothing has to wait for `i.valid`.
        m.d[self.i_domain] += writable.eq((tail_gray != full) & (tail_next != full))
        m.d[self.o_domain] += readable.eq(Mux(read, head_next != tail_seen, head_gray != tail_seen))

        m.d.comb += [
            self.i.ready.eq(writable),
            self.o.payload.eq(payload),
            written.eq(self.i.valid & writable),
            read.eq(readable & free),
            w_port.addr.eq(tail),
            w_port.data.eq(self.i.payload),
            # What lies in a free place does not matter: the many write enables wait for nothing.
            w_port.en.eq(writable),
            r_port.addr.eq(head),
        ]
        with m.If(free):
            m.d[self.o_domain] += [self.o.valid.eq(readable), payload.eq(r_port.data)]
        return m

    def _pointer(self, m, domain, name, advances):
        """Return a pointer, its Gray code, and the Gray code of the next one, all registers."""
        bits = self.depth.bit_length()  # one more than the address has: full is not empty
        binary = Signal(bits, name=name)
        gray = Signal(bits, name=f"{name}_gray")
        after = Signal(bits, name=f"{name}_next", init=1)
        with m.If(advances):
            # `after` is that of binary + 1, so its successor is that of binary + 2.
            ahead = (binary + 2)[:bits]
            m.d[domain] += [binary.eq(binary + 1), gray.eq(after), after.eq(ahead ^ (ahead >> 1))]
        return binary, gray, after
