"""The switch in front of a core that may have failed."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import packet_layout

__all__ = ["Gate"]


class Gate(wiring.Component):
    """Pass packets on until the core behind is switched off; then swallow them.

    A core that hangs cannot hold up the others this way. What would have been its turn to store is
    counted: these tuples are kept nowhere.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    position, cores : int
        Which core this is, of how many.

    Members
    -------
    i, o : streams of :func:`packet_layout`
        Purely combinational. An offer may be withdrawn when the core is switched off.
    disabled : ``In(1)``
        Switch the core off, until reset.
    enabled : ``Out(1)``
        It has not been switched off.
    unstored_r, unstored_s : ``Out(32)``
        Tuples that this core should have kept.
    """

    def __init__(self, plan, *, position, cores):
        self.position = position
        self.cores = cores
        packet = stream.Signature(packet_layout(plan))
        super().__init__(
            {
                "i": In(packet),
                "o": Out(packet),
                "disabled": In(1),
                "enabled": Out(1),
                "unstored_r": Out(32),
                "unstored_s": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()

        off = Signal()
        with m.If(self.disabled):
            m.d.sync += off.eq(1)
        m.d.comb += [
            self.enabled.eq(~off),
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid & ~off),
            self.i.ready.eq(self.o.ready | off),
        ]

        passed, packet = Signal(), Signal.like(self.i.p)
        m.d.sync += [passed.eq(self.i.valid & self.i.ready), packet.eq(self.i.p)]
        for side, unstored in enumerate((self.unstored_r, self.unstored_s)):
            distance = Signal(range(self.cores), init=self.position, name=f"distance{side}")
            with m.If(passed & packet.tuple & (packet.side == side)):
                m.d.sync += distance.eq(Mux(distance == 0, self.cores - 1, distance - 1))
                with m.If(off & (distance == 0)):
                    m.d.sync += unstored.eq(unstored + 1)
            with m.If(passed & packet.flush):
                m.d.sync += distance.eq(self.position)
        return m
