"""Order as exact as the load permits."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.precision import LOG_BITS

__all__ = ["AdaptivePrecision"]


class AdaptivePrecision(wiring.Component):
    """Send fewer stars while the input has to wait (section 7.6).

    From the finest to the coarsest: inner order with a star after every 1, 2, 4 ... intervals,
    then outer order with a star after every 1, 2, 4 ... arrivals. Every ``period`` cycles the
    precision is a step coarser if the input waited for more than an eighth of them, and a step
    finer if something was offered and nothing waited.

    Parameters
    ----------
    period : int
        Cycles between decisions; a power of two, at least 8.
    coarsest_log : int
        With this many intervals, as a power of two, an arrival has one star.
    most : int
        Largest group of arrivals, a power of two.

    Members
    -------
    offered, waits : ``In(1)``
        A message is offered in this cycle; it is not taken.
    open : ``In(1)``
        A group of arrivals is not complete: it is not cut short by inner order.
    inner : ``Out(1)``
        Inner order, or else outer.
    log : ``Out(LOG_BITS)``
        Intervals between stars of inner order, as a power of two.
    interval : ``Out(range(most + 1))``
        Arrivals per group, 1 with inner order.
    """

    def __init__(self, *, coarsest_log, period=1024, most=1024):
        self.period = period
        self.coarsest_log = coarsest_log
        self.most = most
        super().__init__(
            {
                "offered": In(1),
                "waits": In(1),
                "open": In(1),
                "inner": Out(1, init=1),
                "log": Out(LOG_BITS),
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
        coarser, finer = Signal(), Signal()
        greatest, least, last_log, first_log = Signal(), Signal(), Signal(), Signal(init=1)
        m.d.sync += [
            greatest.eq(self.interval == self.most),
            least.eq(self.interval == 1),
            last_log.eq(self.log == self.coarsest_log),
            first_log.eq(self.log == 0),
            coarser.eq(decides & much),
            finer.eq(decides & ~much & none & busy),
        ]
        with m.If(self.inner):
            with m.If(coarser & last_log):
                m.d.sync += self.inner.eq(0)
            with m.Elif(coarser):
                m.d.sync += self.log.eq(self.log + 1)
            with m.Elif(finer & ~first_log):
                m.d.sync += self.log.eq(self.log - 1)
        with m.Else():
            with m.If(coarser & ~greatest):
                m.d.sync += self.interval.eq(self.interval << 1)
            with m.Elif(finer & least):
                # Groups of one are never open: only a larger one, from before, can still be.
                m.d.sync += self.inner.eq(~self.open)
            with m.Elif(finer):
                m.d.sync += self.interval.eq(self.interval >> 1)
        return m
