"""Wide memory in narrow slices, each with its own copy of the address."""

from amaranth import Module, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.fifo import STYLES

__all__ = ["Banks"]

# Bits of a slice: what one block memory holds beside each other, or nine blocks of LUTRAM.
SLICE = 36


class Banks(wiring.Component):
    """Store wide words; what is read comes two cycles after its address.

    An address that reaches a hundred bits of memory in one cycle is the longest path of a core.
    Each slice has registers of its own in front and behind, whatever the memory is made of.
    Synthesis keeps the slices apart until the end, or it would merge their registers.

    Parameters
    ----------
    shape : shape-like
        What a place holds.
    depth : int
        Places.
    memory : str
        ``lutram`` or ``bram``.

    Members
    -------
    w_addr, w_data, w_en, r_addr : In
        Where to write what, and where to read.
    r_data : Out
        What was read at the address of two cycles ago; anything if that was written just then.
    """

    latency = 2

    def __init__(self, shape, *, depth, memory):
        self.shape = shape
        self.depth = depth
        self.memory = memory
        super().__init__(
            {
                "w_addr": In(range(depth)),
                "w_data": In(shape),
                "w_en": In(1),
                "r_addr": In(range(depth)),
                "r_data": Out(shape),
            }
        )

    def elaborate(self, platform):
        m = Module()

        width = Shape.cast(self.shape).width
        for number, start in enumerate(range(0, width, SLICE)):
            bits = slice(start, min(start + SLICE, width))
            bank = _Bank(bits.stop - start, depth=self.depth, memory=self.memory)
            m.submodules[f"bank{number}"] = bank
            m.d.comb += [
                bank.w_addr.eq(self.w_addr),
                bank.w_data.eq(Value.cast(self.w_data)[bits]),
                bank.w_en.eq(self.w_en),
                bank.r_addr.eq(self.r_addr),
                Value.cast(self.r_data)[bits].eq(bank.r_data),
            ]
        return m


class _Bank(wiring.Component):
    """A slice: parameters and members are those of ``Banks``."""

    def __init__(self, width, *, depth, memory):
        self.memory = memory
        # Nobody looks at what comes from a place that was written in the same cycle, which Yosys
        # cannot see: it would build a bypass around a block memory.
        attrs = {"ram_style": STYLES[memory], "no_rw_check": 1}
        self._storage = Memory(shape=width, depth=depth, init=[], attrs=attrs)
        super().__init__(
            {
                "w_addr": In(range(depth)),
                "w_data": In(width),
                "w_en": In(1),
                "r_addr": In(range(depth)),
                "r_data": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.storage = self._storage
        w_port = self._storage.write_port()
        m.d.comb += [
            w_port.addr.eq(self.w_addr),
            w_port.data.eq(self.w_data),
            w_port.en.eq(self.w_en),
        ]
        r_port = self._storage.read_port(domain="comb")
        r_addr, r_data = self.r_addr, r_port.data
        # One register in front of LUTRAM and one behind; a block memory has both of them inside.
        if self.memory == "lutram":
            r_addr = Signal.like(self.r_addr, name="address")
            m.d.sync += r_addr.eq(self.r_addr)
        else:
            r_data = Signal(len(self.r_data), name="latch", reset_less=True)
            m.d.sync += r_data.eq(r_port.data)
        read = Signal(len(self.r_data), reset_less=True)
        m.d.sync += read.eq(r_data)
        m.d.comb += [r_port.addr.eq(r_addr), self.r_data.eq(read)]
        return m
