"""The comparators of a core and the queue of what they find."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.serializer import HitSerializer, hits_layout
from eddyline_hw.layouts import entry_layout, result_layout
from eddyline_hw.predicate import PredicatePipeline
from eddyline_hw.stream.fifo import Fifo
from eddyline_hw.window.signature import slot_layout

__all__ = ["Matcher", "probe_layout"]

# Deeper queues go to block RAM.
MOST_IN_LUTRAM = 128
# Rows that the queue holds beside its margin.
WORKING = 12
# Results that wait to leave the core.
RESULTS = 16


def probe_layout(plan):
    """Return what is compared in a cycle: a tuple of ``side``, or a ``star`` that passes by."""
    return data.StructLayout({"star": 1, "side": 1, "valid": 1, "entry": entry_layout(plan)})


class Matcher(wiring.Component):
    """Compare a probe with a row of partners in every cycle and queue what matches.

    Nothing stalls the comparators: whoever feeds them stops in time when ``throttle`` rises. Then
    there is still room for ``margin`` rows.

    Parameters
    ----------
    plan : Plan
        Gives predicate and layouts.
    lanes : int
        Comparators.
    margin : int
        Rows that may still come after ``throttle`` has risen.
    stages : int
        Registers inside the predicate.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    probe, partners : In
        What to compare in this cycle. Partners of an R probe are S tuples and the other way
        round. Only ``valid`` slots count.
    shed : ``In(1)``
        When the queue is full up to its margin, drop results and count them, instead of relying on
        ``throttle``. Stars are never dropped.
    throttle : ``Out(1)``
        The queue has little more than its margin left.
    o : ``Out(stream.Signature(result_layout(plan, carried)))``
        Results.
    dropped, comparisons, peak : Out
        Results dropped, pairs compared, most rows ever queued.
    """

    def __init__(self, plan, *, lanes, margin, stages=2, carried=()):
        self.plan = plan
        self.lanes = lanes
        self.margin = margin
        self.stages = stages
        self.carried = tuple(carried)
        # What may still come, and something to work with; look-up-table RAM comes in sixteens.
        self.depth = -(-(margin + WORKING) // 16) * 16
        slot = slot_layout(entry_layout(plan))
        super().__init__(
            {
                "probe": In(probe_layout(plan)),
                "partners": In(slot).array(lanes),
                "shed": In(1),
                "throttle": Out(1),
                "o": Out(stream.Signature(result_layout(plan, carried))),
                "dropped": Out(32),
                "comparisons": Out(32),
                "peak": Out(range(self.depth)),
            }
        )

    def elaborate(self, platform):
        m = Module()

        hits = hits_layout(self.plan, self.lanes, self.carried)
        memory = "lutram" if self.depth <= MOST_IN_LUTRAM else "bram"
        m.submodules.queue = queue = Fifo(hits, depth=self.depth, memory=memory)
        m.submodules.serializer = serializer = HitSerializer(
            self.plan, lanes=self.lanes, carried=self.carried
        )
        m.submodules.results = results = Fifo(self.o.payload.shape(), depth=RESULTS)
        wiring.connect(m, queue.o, serializer.i)
        wiring.connect(m, results.o, wiring.flipped(self.o))
        # Five results may be under way before the queue is seen to be that full.
        m.d.sync += serializer.room.eq(results.level < RESULTS - 6)
        m.d.comb += [
            results.i.valid.eq(serializer.valid),
            results.i.payload.eq(serializer.result),
        ]

        found = Signal(hits)
        m.d.comb += found.hits.eq(self._compare(m, found))

        full = Signal()
        m.d.sync += [
            full.eq(queue.level > self.depth - self.margin - 3),
            self.throttle.eq(queue.level > self.depth - self.margin - 4),
        ]
        pushed = Signal(hits)
        matched, lost = Signal(), Signal()
        m.d.sync += [
            pushed.eq(found),
            matched.eq(found.star | ((found.hits != 0) & ~(self.shed & full))),
            lost.eq((found.hits != 0) & ~found.star & self.shed & full),
        ]
        m.d.comb += [queue.i.payload.eq(pushed), queue.i.valid.eq(matched)]
        # Without `shed` a full queue would be a mistake of the margin: count that as well.
        overrun = lost | (matched & ~queue.i.ready)
        count = Signal(range(self.lanes + 1))
        m.d.comb += count.eq(sum(pushed.hits[lane] for lane in range(self.lanes)))
        with m.If(overrun):
            m.d.sync += self.dropped.eq(self.dropped + count)
        m.d.comb += self.peak.eq(queue.peak)
        return m

    def _compare(self, m, found):
        """Add the comparators; set what goes with the matches, and return the matches."""
        probe = Signal.like(self.probe, reset_less=True)
        star = Signal()
        m.d.sync += [probe.eq(self.probe), star.eq(self.probe.star)]
        matches, parts, together = [], [], Signal(self.lanes)
        for lane, partner in enumerate(self.partners):
            predicate = PredicatePipeline(
                self.plan.predicate, self.plan.r, self.plan.s, stages=self.stages
            )
            m.submodules[f"comparator{lane}"] = predicate
            r = Signal(predicate.r.shape(), name=f"r{lane}", reset_less=True)
            s = Signal(predicate.s.shape(), name=f"s{lane}", reset_less=True)
            part = Signal.like(found.probe, name=f"part{lane}", reset_less=True)
            # The two views of an entry have the id in the same place.
            m.d.sync += [
                together[lane].eq(self.probe.valid & partner.valid),
                *self._part_of(partner.entry, part),
            ]
            with m.If(self.probe.side):
                m.d.sync += [r.eq(partner.entry.r.words), s.eq(self.probe.entry.s.words)]
            with m.Else():
                m.d.sync += [r.eq(self.probe.entry.r.words), s.eq(partner.entry.s.words)]
            m.d.comb += [predicate.r.eq(r), predicate.s.eq(s)]
            matches.append(predicate.match)
            parts.append(part)

        pairs = Signal(range(self.lanes + 1))
        m.d.sync += pairs.eq(sum(together[lane] for lane in range(self.lanes)))
        self._count(m, pairs)

        own = Signal.like(found.probe, name="own")
        m.d.comb += self._part_of(probe.entry, own)
        delayed = {"side": probe.side, "probe": own, "together": together, "star": star}
        delayed |= {f"part{lane}": part for lane, part in enumerate(parts)}
        for stage in range(self.stages):
            for name, signal in list(delayed.items()):
                later = Signal.like(
                    signal, name=f"{name}_{stage}", reset_less=name not in ("together", "star")
                )
                m.d.sync += later.eq(signal)
                delayed[name] = later
        m.d.comb += [
            found.star.eq(delayed["star"]),
            found.side.eq(delayed["side"]),
            found.probe.eq(delayed["probe"]),
            *(found.parts[lane].eq(delayed[f"part{lane}"]) for lane in range(self.lanes)),
        ]
        return delayed["together"] & Cat(matches)

    def _count(self, m, pairs):
        m.d.sync += self.comparisons.eq(self.comparisons + pairs)

    def _part_of(self, entry, part):
        return [
            part.id.eq(entry.r.id),
            *(part[name].eq(entry.r.words[name]) for name in self.carried),
        ]

    @property
    def latency(self):
        """Cycles from a probe to the queue."""
        return 1 + self.stages + 1
