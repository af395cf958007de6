# amaranth: UnusedElaboratable=no
"""Small operators for tests of the simulator."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ROW", "Adder", "Crossing", "Faulty", "Widener"]

ROW = data.StructLayout({"value": 40, "star": 1})


class Adder(wiring.Component):
    """Add a setting to every value, in a chain of equal stages, one cycle each.

    Stage ``n`` adds ``offset + n``. Stars pass unchanged.
    """

    def __init__(self, *, stages):
        self.stages = stages
        super().__init__({
            "i": In(stream.Signature(ROW)),
            "o": Out(stream.Signature(ROW)),
            "offset": In(16, init=7),
            "taken": Out(64),
            "full": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        left = wiring.flipped(self.i)
        for number in range(self.stages):
            m.submodules[f"stage_{number}"] = stage = Stage()
            wiring.connect(m, left, stage.i)
            m.d.comb += [stage.offset.eq(self.offset), stage.number.eq(number)]
            left = stage.o
        wiring.connect(m, left, wiring.flipped(self.o))
        m.d.sync += self.taken.eq(self.taken + (self.i.valid & self.i.ready))
        m.d.comb += self.full.eq(~self.i.ready)
        return m


class Stage(wiring.Component):
    i: In(stream.Signature(ROW))
    o: Out(stream.Signature(ROW))
    offset: In(16)
    number: In(8)

    def elaborate(self, platform):
        m = Module()
        with m.If(~self.o.valid | self.o.ready):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += [
                self.o.valid.eq(self.i.valid),
                self.o.payload.eq(self.i.payload),
                self.o.payload.value.eq(self.i.payload.value + self.offset + self.number),
            ]
        return m


class Crossing(wiring.Component):
    """Carry rows into clock domain ``merge``, and back unless the output belongs to it.

    ``late`` counts cycles of ``merge``.
    """

    def __init__(self, *, output_domain="sync"):
        self.output_domain = output_domain
        super().__init__({
            "i": In(stream.Signature(ROW)),
            "o": Out(stream.Signature(ROW)),
            "late": Out(32),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        width = ROW.size
        m.submodules.there = there = fifo.AsyncFIFOBuffered(
            width=width, depth=8, w_domain="sync", r_domain="merge"
        )
        m.d.merge += self.late.eq(self.late + 1)
        m.d.comb += [
            there.w_data.eq(self.i.payload),
            there.w_en.eq(self.i.valid),
            self.i.ready.eq(there.w_rdy),
        ]
        last = there
        if self.output_domain == "sync":
            m.submodules.back = last = fifo.AsyncFIFOBuffered(
                width=width, depth=8, w_domain="merge", r_domain="sync"
            )
            m.d.comb += [
                last.w_data.eq(there.r_data),
                last.w_en.eq(there.r_rdy),
                there.r_en.eq(last.w_rdy),
            ]
        m.d.comb += [
            self.o.payload.eq(last.r_data),
            self.o.valid.eq(last.r_rdy),
            last.r_en.eq(self.o.ready),
        ]
        return m


class Faulty(wiring.Component):
    """A register that goes wrong as ``fault`` says.

    0: not at all; 1: takes no more input after 5 rows; 2: swallows stars; 3: withdraws an offer
    that is not taken at once; 4: changes an offer that is not taken at once.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(ROW)),
            "o": Out(stream.Signature(ROW)),
            "fault": In(3),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        taken = Signal(range(6))
        with m.If(~self.o.valid | self.o.ready):
            m.d.comb += self.i.ready.eq((self.fault != 1) | (taken != 5))
            accepted = self.i.valid & self.i.ready
            m.d.sync += [
                self.o.valid.eq(accepted & ~((self.fault == 2) & self.i.payload.star)),
                self.o.payload.eq(self.i.payload),
                taken.eq(Mux(taken == 5, 5, taken + accepted)),
            ]
        with m.Elif(self.fault == 3):
            m.d.sync += self.o.valid.eq(0)
        with m.Elif(self.fault == 4):
            m.d.sync += self.o.payload.value.eq(self.o.payload.value + 1)
        return m


class Widener(wiring.Component):
    """Repeat each byte twelve times below four zeros; both streams promise to be always ready."""

    i: In(stream.Signature(8, always_ready=True))
    o: Out(stream.Signature(100, always_ready=True))

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [
            self.o.valid.eq(self.i.valid),
            self.o.payload.eq(self.i.payload.replicate(12)),
        ]
        return m
