"""The switch in front of a core that may have failed."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import packet_layout
from eddyline_hw.tally import tally

__all__ = ["Gate"]


class Gate(wiring.Component):
    """Pass packets on until the core behind is switched off; then swallow them.

    A core that hangs cannot hold up the others this way. What would have been its turn to store is
    counted: these tuples are kept nowhere.

    Parameters
    ----------
    position, cores : int
        Which core this is, of how many.

    Members
    -------
    push, packet : In
        A packet comes in this cycle.
    passes : ``Out(1)``
        It is for the core.
    has_room : ``In(1)``
        The core has room.
    room : ``Out(1)``
        It has, or does not matter any more.
    disabled : ``In(1)``
        Switch the core off, until reset.
    enabled : ``Out(1)``
        It has not been switched off. From a flip-flop.
    unstored_r, unstored_s : ``Out(32)``
        Tuples that this core should have kept.
    """

    def __init__(self, *, position, cores):
        self.position = position
        self.cores = cores
        super().__init__(
            {
                "push": In(1),
                "packet": In(packet_layout()),
                "passes": Out(1),
                "has_room": In(1),
                "room": Out(1),
                "disabled": In(1),
                "enabled": Out(1, init=1),
                "unstored_r": Out(32),
                "unstored_s": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()

        # One for this end of the core, one for the other.
        off = Signal()
        with m.If(self.disabled):
            m.d.sync += [off.eq(1), self.enabled.eq(0)]
        m.d.comb += [
            self.passes.eq(self.push & ~off),
            self.room.eq(self.has_room | off),
        ]

        passed, packet = Signal(), Signal.like(self.packet)
        m.d.sync += [passed.eq(self.push), packet.eq(self.packet)]
        for side, unstored in enumerate((self.unstored_r, self.unstored_s)):
            distance = Signal(range(self.cores), init=self.position, name=f"distance{side}")
            missed = Signal(name=f"missed{side}")
            m.d.sync += missed.eq(0)
            with m.If(passed & packet.tuple & (packet.side == side)):
                m.d.sync += [
                    distance.eq(Mux(distance == 0, self.cores - 1, distance - 1)),
                    missed.eq(off & (distance == 0)),
                ]
            with m.If(passed & packet.flush):
                m.d.sync += distance.eq(self.position)
            tally(m, unstored, missed)
        return m
