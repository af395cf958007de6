"""Order as exact as the load permits."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["AdaptiveInterval"]


class AdaptiveInterval(wiring.Component):
    """Close fewer groups of arrivals while the input has to wait (section 7.6).

    Every ``period`` cycles the interval doubles if the input waited for more than an eighth of
    them, and is halved if something was offered and nothing waited.

    Parameters
    ----------
    period : int
        Cycles between decisions; a power of two, at least 8.
    most : int
        Largest interval.

    Members
    -------
    offered, waits : ``In(1)``
        A message is offered in this cycle; it is not taken.
    interval : ``Out(range(most + 1))``
        Arrivals per group.
    """

    def __init__(self, *, period=1024, most=1024):
        self.period = period
        self.most = most
        super().__init__(
            {
                "offered": In(1),
                "waits": In(1),
                "interval": Out(range(most + 1), init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()

        cycle, waited = Signal(range(self.period)), Signal(range(self.period + 1))
        decides, much, none, busy = Signal(), Signal(), Signal(), Signal()
        m.d.sync += [cycle.eq(cycle + 1), decides.eq(cycle == self.period - 1)]
        with m.If(self.offered):
            m.d.sync += busy.eq(1)
        with m.If(self.waits):
            m.d.sync += waited.eq(waited + 1)
        m.d.sync += [much.eq(waited > self.period // 8), none.eq(waited == 0)]
        with m.If(decides):
            m.d.sync += [busy.eq(self.offered), waited.eq(self.waits)]
        doubles, halves, greatest, least = Signal(), Signal(), Signal(), Signal(init=1)
        m.d.sync += [
            greatest.eq(self.interval == self.most),
            least.eq(self.interval == 1),
            doubles.eq(decides & much & ~greatest),
            halves.eq(decides & ~much & none & busy & ~least),
        ]
        with m.If(doubles):
            m.d.sync += self.interval.eq(self.interval << 1)
        with m.Elif(halves):
            m.d.sync += self.interval.eq(self.interval >> 1)
        return m
