"""Order as exact as the load permits."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.precision import LOG_BITS

__all__ = ["AdaptivePrecision"]


class AdaptivePrecision(wiring.Component):
    """Send fewer stars while the input has to wait (section 7.6).

    From the finest to the coarsest: inner order with a star after every 1, 2, 4 ... intervals,
    then outer order with a star after every 1, 2, 4 ... arrivals. Every ``period`` cycles the
    precision is a step coarser if the input waited for more than an eighth of them, and a step
    finer if something was offered and nothing waited. In outer order stars cost nothing where
    scans are the limit, so there it is coarser only if results held up scans for more than a 64th
    of the cycles; inner order makes the scans themselves longer.

    Queues hide for a while that a step does not sustain the input. So a step that had to be taken
    back is barred, and with it all finer ones: each needs twice as many periods without waits as
    the time before, up to ``patience``, until there were twice as many as that in a row. So the
    precision settles, and still follows a load that falls.

    Parameters
    ----------
    period : int
        Cycles between decisions; a power of two, at least 64.
    coarsest_log : int
        With this many intervals, as a power of two, an arrival has one star.
    most : int
        Largest group of arrivals, a power of two.
    patience : int
        Most periods without waits that a barred step needs, a power of two.

    Members
    -------
    offered, waits : ``In(1)``
        A message is offered in this cycle; it is not taken.
    held : ``In(1)``
        Results are in the way of a scan, or of the next arrival.
    inner : ``Out(1)``
        Inner order, or else outer.
    log : ``Out(LOG_BITS)``
        Intervals between stars of inner order, as a power of two.
    interval : ``Out(range(most + 1))``
        Arrivals per group, 1 with inner order.
    """

    def __init__(self, *, coarsest_log, period=1024, most=1024, patience=256):
        self.period = period
        self.coarsest_log = coarsest_log
        self.most = most
        self.patience = patience
        super().__init__(
            {
                "offered": In(1),
                "waits": In(1),
                "held": In(1),
                "inner": Out(1, init=1),
                "log": Out(LOG_BITS),
                "interval": Out(range(most + 1), init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()

        cycle = Signal(range(self.period))
        waited, held_up = Signal(range(self.period + 1)), Signal(range(self.period + 1))
        decides, much, none, busy, helps = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.sync += [cycle.eq(cycle + 1), decides.eq(cycle == self.period - 1)]
        with m.If(self.offered):
            m.d.sync += busy.eq(1)
        with m.If(self.waits):
            m.d.sync += waited.eq(waited + 1)
        with m.If(self.held):
            m.d.sync += held_up.eq(held_up + 1)
        m.d.sync += [
            much.eq(waited > self.period // 8),
            none.eq(waited == 0),
            helps.eq(self.inner | (held_up > self.period // 64)),
        ]
        with m.If(decides):
            m.d.sync += [busy.eq(self.offered), waited.eq(self.waits), held_up.eq(self.held)]

        # Steps are numbered from the finest on; those below `barred` had to be taken back.
        last = self.coarsest_log + self.most.bit_length()
        step, barred = Signal(range(last + 1)), Signal(range(last + 1))
        tried = Signal()  # the last change was to a finer step
        # Periods without waits since the last change, and in a row. A barred step needs a power of
        # two, so there are enough if one of that bit and the higher ones is set.
        easy, lull = Signal(range(self.patience + 1), init=1), Signal(range(2 * self.patience))
        enough = Signal(len(easy) - 1, init=-1)  # the highest bit always is
        # All of these change once in a period, so what they decide has some cycles.
        held, first, final, rested = Signal(), Signal(init=1), Signal(), Signal()
        at_bar = Signal()
        m.d.sync += [
            first.eq(step == 0),
            final.eq(step == last),
            at_bar.eq(step <= barred),
            held.eq((easy & (Cat(enough, 1) | ~at_bar.replicate(len(easy)))).any()),
            rested.eq(lull == 2 * self.patience - 1),
        ]
        coarser, calm, finer = Signal(), Signal(), Signal()
        m.d.sync += [
            coarser.eq(decides & much & helps & ~final),
            calm.eq(decides & none & busy),
            finer.eq(decides & none & busy & held & ~first),
        ]
        with m.If(decides & ~none):
            m.d.sync += [easy.eq(1), lull.eq(0)]
        with m.If(calm & ~rested):
            m.d.sync += lull.eq(lull + 1)
        with m.If(calm & rested):  # the load has fallen
            m.d.sync += [barred.eq(0), enough.eq(-1)]
        with m.If(coarser):
            m.d.sync += [step.eq(step + 1), tried.eq(0)]
            with m.If(tried):
                m.d.sync += [barred.eq(step + 1), enough.eq(enough << 1)]
        with m.If(finer):
            m.d.sync += [step.eq(step - 1), tried.eq(1), easy.eq(1)]
        with m.Elif(calm & ~held):
            m.d.sync += easy.eq(easy + 1)

        inner_last, inner_next = Signal(), Signal()
        m.d.sync += [
            inner_last.eq(step == self.coarsest_log),
            inner_next.eq(step == self.coarsest_log + 1),
        ]
        with m.If(coarser & self.inner):
            m.d.sync += [self.inner.eq(~inner_last), self.log.eq(self.log + ~inner_last)]
        with m.Elif(coarser):
            m.d.sync += self.interval.eq(self.interval << 1)
        with m.If(finer):
            with m.If(self.inner):
                m.d.sync += self.log.eq(self.log - 1)
            with m.Elif(inner_next):
                m.d.sync += self.inner.eq(1)
            with m.Else():
                m.d.sync += self.interval.eq(self.interval >> 1)
        return m
