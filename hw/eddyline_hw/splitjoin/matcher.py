"""The comparators of a SplitJoin core and the queue of rows with something in them."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.matcher import Matcher, probe_layout
from eddyline_hw.handshake.serializer import hits_layout
from eddyline_hw.layouts import entry_layout
from eddyline_hw.splitjoin.layouts import (
    found_layout,
    item_layout,
    marks_layout,
    pair_layout,
    row_layout,
)
from eddyline_hw.splitjoin.serializer import PunctuatedSerializer
from eddyline_hw.stream.tickets import TicketQueue
from eddyline_hw.tally import tally
from eddyline_hw.window.signature import slot_layout

__all__ = ["PunctuatedMatcher"]


class PunctuatedMatcher(Matcher):
    """Compare a probe with a row of partners in every cycle; queue what matches, and stars.

    The comparators are those of :class:`eddyline_hw.handshake.matcher.Matcher`; stars come with a
    row instead of between rows. Nothing is ever dropped.

    Parameters
    ----------
    plan, lanes, stages, carried
        As there.
    flight : int
        Cycles from a look at ``room`` to the probe that comes of it.

    Members
    -------
    probe, partners : In
        What to compare in this cycle.
    stars : ``In(marks_layout(lanes))``
        Stars that come with it; zero if there is none.
    room : ``Out(1)``
        Another probe may be sent here.
    taken : ``In(1)``
        Whoever takes the items can take another one.
    sends, item, pair : Out
        Results and stars in order, as from :class:`PunctuatedSerializer`.
    comparisons, peak : Out
        Pairs compared, most rows ever queued.
    overrun : ``Out(1)``
        ``flight`` was wrong; stays set until reset.
    """

    def __init__(self, plan, *, lanes, flight, stages=2, carried=()):
        self.plan = plan
        self.lanes = lanes
        self.stages = stages
        self.carried = tuple(carried)
        flight += self.latency
        self._queue = TicketQueue(
            row_layout(lanes), found_layout(plan, lanes, carried), flight=flight
        )
        wiring.Component.__init__(
            self,
            {
                "probe": In(probe_layout(plan)),
                "partners": In(slot_layout(entry_layout(plan))).array(lanes),
                "stars": In(marks_layout(lanes)),
                "room": Out(1),
                "taken": In(1),
                "sends": Out(2),
                "item": Out(item_layout()),
                "pair": Out(pair_layout(plan, carried)),
                "comparisons": Out(32),
                "peak": Out(range(self._queue.depth)),
                "overrun": Out(1),
            },
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.queue = queue = self._queue
        m.submodules.serializer = serializer = PunctuatedSerializer(
            self.plan, lanes=self.lanes, carried=self.carried
        )
        wiring.connect(m, queue.o, serializer.i)
        m.d.comb += [
            serializer.found.eq(queue.follows),
            serializer.room.eq(self.taken),
            self.sends.eq(serializer.sends),
            self.item.eq(serializer.item),
            self.pair.eq(serializer.pair),
            self.room.eq(queue.room),
            self.peak.eq(queue.peak),
            self.overrun.eq(queue.overrun),
        ]

        found, hits = Signal(hits_layout(self.plan, self.lanes, self.carried)), Signal(self.lanes)
        m.d.comb += hits.eq(self._compare(m, found))
        stars = self.stars
        for stage in range(1 + self.stages):
            m.d.sync += (later := Signal.like(stars, name=f"stars_{stage}")).eq(stars)
            stars = later
        items = Signal.like(queue.head.items)
        lanes = zip(hits, stars.marks, strict=True)
        m.d.comb += items.eq(Cat(Cat(Cat(*lane) for lane in lanes), stars.closes))
        m.d.sync += [
            queue.push.eq(items.any()),
            queue.head.items.eq(items),
            queue.head.several.eq((items & (items - 1)).any()),
            queue.head.side.eq(found.side),
            *(queue.head[name].eq(stars[name]) for name in ("both", "ordered", "sync", "hidden")),
            queue.body.probe.eq(found.probe),
            queue.body.parts.eq(found.parts),
        ]
        return m

    def _count(self, m, pairs):
        tally(m, self.comparisons, pairs)
