"""The comparators of a SplitJoin core and the queue of rows with something in them."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.matcher import MOST_IN_LUTRAM, WORKING, Matcher, probe_layout
from eddyline_hw.layouts import entry_layout
from eddyline_hw.splitjoin.layouts import item_layout, marks_layout, row_layout
from eddyline_hw.splitjoin.serializer import PunctuatedSerializer
from eddyline_hw.stream.buffer import Buffer
from eddyline_hw.stream.fifo import Fifo
from eddyline_hw.window.signature import slot_layout

__all__ = ["PunctuatedMatcher"]


class PunctuatedMatcher(Matcher):
    """Compare a probe with a row of partners in every cycle; queue what matches, and stars.

    The comparators are those of :class:`eddyline_hw.handshake.matcher.Matcher`; stars come with a
    row instead of between rows. Nothing is ever dropped.

    Parameters
    ----------
    plan, lanes, margin, stages, carried
        As there.

    Members
    -------
    probe, partners : In
        What to compare in this cycle.
    stars : ``In(marks_layout(lanes))``
        Stars that come with it; zero if there is none.
    throttle : ``Out(1)``
        The queue has little more than its margin left.
    o : ``Out(stream.Signature(item_layout(plan, carried)))``
        Results and stars, in order.
    comparisons, peak : Out
        Pairs compared, most rows ever queued.
    lost : ``Out(1)``
        The margin was wrong; stays set until reset.
    """

    def __init__(self, plan, *, lanes, margin, stages=2, carried=()):
        self.plan = plan
        self.lanes = lanes
        self.margin = margin
        self.stages = stages
        self.carried = tuple(carried)
        self.depth = -(-(margin + WORKING) // 16) * 16
        wiring.Component.__init__(
            self,
            {
                "probe": In(probe_layout(plan)),
                "partners": In(slot_layout(entry_layout(plan))).array(lanes),
                "stars": In(marks_layout(lanes)),
                "throttle": Out(1),
                "o": Out(stream.Signature(item_layout(plan, carried))),
                "comparisons": Out(32),
                "peak": Out(range(self.depth + 1)),
                "lost": Out(1),
            },
        )

    def elaborate(self, platform):
        m = Module()

        row = row_layout(self.plan, self.lanes, self.carried)
        memory = "lutram" if self.depth <= MOST_IN_LUTRAM else "bram"
        m.submodules.queue = queue = Fifo(row, depth=self.depth, memory=memory)
        m.submodules.waiting = waiting = Buffer(row)  # the way from `o.ready` ends here
        m.submodules.serializer = serializer = PunctuatedSerializer(
            self.plan, lanes=self.lanes, carried=self.carried
        )
        wiring.connect(m, queue.o, waiting.i)
        wiring.connect(m, waiting.o, serializer.i)
        wiring.connect(m, serializer.o, wiring.flipped(self.o))

        compared = Signal(row)
        m.d.comb += compared.found.hits.eq(self._compare(m, compared.found))
        stars = self.stars
        for stage in range(1 + self.stages):
            m.d.sync += (later := Signal.like(stars, name=f"stars_{stage}")).eq(stars)
            stars = later
        m.d.comb += compared.stars.eq(stars)

        pushed, worth = Signal(row), Signal()
        m.d.sync += [
            pushed.eq(compared),
            worth.eq((compared.found.hits | stars.marks).any() | stars.closes),
            self.throttle.eq(queue.level > self.depth - self.margin - 4),
        ]
        m.d.comb += [
            queue.i.payload.eq(pushed),
            queue.i.valid.eq(worth),
            self.peak.eq(queue.peak),
        ]
        with m.If(worth & ~queue.i.ready):
            m.d.sync += self.lost.eq(1)
        return m
