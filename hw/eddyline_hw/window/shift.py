"""A window as a shift register, as in the handshake paper (appendix A.2)."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from eddyline_hw.window.signature import slot_layout, window_members

__all__ = ["ShiftWindow"]


class ShiftWindow(wiring.Component):
    """Keep the last tuples in flip-flops that all move at once.

    Tuples enter at the last slot in use and leave at slot 0, so that what leaves needs no
    multiplexer whatever the window's size is set to.

    Parameters
    ----------
    shape : shape-like
        What a slot holds.
    slots : int
        Capacity, at least 1.
    lanes : int
        Slots read at a time, from 1 to ``slots``.

    Members
    -------
    See :func:`eddyline_hw.window.signature.window_members`. ``latency`` and ``interval`` are 1.
    """

    latency = 1
    interval = 1

    def __init__(self, shape, *, slots, lanes):
        if not 1 <= lanes <= slots:
            raise ValueError(f"a window of {slots!r} slots cannot have {lanes!r} lanes")
        self.shape = shape
        self.slots = slots
        self.width = lanes
        self.rows = -(-slots // lanes)
        super().__init__(window_members(shape, slots, lanes))

    def elaborate(self, platform):
        m = Module()

        slot = slot_layout(self.shape)
        valid = Signal(self.slots)
        entries = [Signal(self.shape, name=f"entry{i}", reset_less=True) for i in range(self.slots)]

        # Constant while the window is in use, hence registered: no path from the setting.
        enters = Signal(self.slots)
        m.d.sync += enters.eq(
            Cat(
                (self.last.row == i // self.width) & (self.last.lane == i % self.width)
                for i in range(self.slots)
            )
        )

        m.d.comb += [self.leaving.valid.eq(valid[0]), self.leaving.entry.eq(entries[0])]
        with m.If(self.push):
            for i in range(self.slots):
                behind = (valid[i + 1], entries[i + 1]) if i + 1 < self.slots else (0, entries[i])
                m.d.sync += [
                    valid[i].eq(Mux(enters[i], self.entering.valid, behind[0])),
                    entries[i].eq(Mux(enters[i], self.entering.entry, behind[1])),
                ]
        with m.If(self.clear):
            m.d.sync += valid.eq(0)

        empty = Const(0, slot.size)
        with m.Switch(self.row):
            for row in range(self.rows):
                with m.Case(row):
                    for lane, port in enumerate(self.lanes):
                        i = row * self.width + lane
                        if i < self.slots:
                            m.d.sync += [port.valid.eq(valid[i]), port.entry.eq(entries[i])]
                        else:
                            m.d.sync += port.as_value().eq(empty)
        return m
