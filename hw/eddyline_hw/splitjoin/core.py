"""One core: a share of both windows, and the comparators that both use."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import item_layout, packet_layout
from eddyline_hw.splitjoin.matcher import PunctuatedMatcher
from eddyline_hw.splitjoin.region import Region
from eddyline_hw.splitjoin.sequencer import Sequencer
from eddyline_hw.splitjoin.switch import Switch
from eddyline_hw.stream.fifo import Fifo
from eddyline_hw.window.signature import place_layout

__all__ = ["SplitCore"]

QUEUE_DEPTH = 16
# Cycles from a row in the queue of hits to the sequencer's stop.
STOP_DELAY = 4


class SplitCore(wiring.Component):
    """Compare every tuple with the opposite region, and keep those whose turn is this core's.

    Tuples are processed in order of arrival, one right behind the other. Both regions use the same
    comparators, so neither side leaves them idle while there is work.

    Parameters
    ----------
    plan : Plan
        Gives predicate and layouts.
    position, cores : int
        Which core this is, of how many.
    slots_r, slots_s : int
        Capacity for each side.
    lanes : int
        Comparators.
    stages : int
        Registers inside the predicate.
    memory : str
        See :class:`eddyline_hw.splitjoin.region.Region`.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    i : ``In(stream.Signature(packet_layout(plan)))``
    o : ``Out(stream.Signature(item_layout(plan, carried))).array(2)``
        Results of arriving R tuples, of arriving S tuples, and stars.
    last_r, last_s, young_from_r, young_from_s : In
        Settings of the regions.
    keep : ``In(2)``
        No tuple of R, of S, may ever be overwritten.
    overflow : ``Out(1)``
        A tuple was overwritten that had to stay.
    comparisons, busy, peak : Out
        Pairs compared, cycles in which the comparators had a row, most rows with hits queued.
    """

    def __init__(
        self, plan, *, position, cores, slots_r, slots_s, lanes, stages, memory="auto", carried=()
    ):
        self.regions = {
            side: Region(
                plan,
                side=side,
                position=position,
                cores=cores,
                slots=slots,
                lanes=min(lanes, slots),
                memory=memory,
            )
            for side, slots in (("r", slots_r), ("s", slots_s))
        }
        self.plan = plan
        self.lanes = lanes
        self.carried = tuple(carried)
        self.sequencer = Sequencer(plan, rows=max(one.rows for one in self.regions.values()))
        # Rows between the sequencer and the queue when it is told to stop, and while it is told.
        margin = 1 + Region.latency + 1 + stages + 1 + STOP_DELAY
        self.matcher = PunctuatedMatcher(
            plan, lanes=lanes, margin=margin, stages=stages, carried=carried
        )
        super().__init__(
            {
                "i": In(stream.Signature(packet_layout(plan))),
                "o": Out(stream.Signature(item_layout(plan, carried))).array(2),
                **{
                    f"last_{side}": In(place_layout(one.slots, one.width))
                    for side, one in self.regions.items()
                },
                "young_from_r": In(range(cores)),
                "young_from_s": In(range(cores)),
                "keep": In(2),
                "overflow": Out(1),
                "comparisons": Out(32),
                "busy": Out(32),
                "peak": Out(self.matcher.peak.shape()),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.queue = queue = Fifo(self.i.p.shape(), depth=QUEUE_DEPTH)
        m.submodules.sequencer = sequencer = self.sequencer
        m.submodules.matcher = matcher = self.matcher
        m.submodules.switch = switch = Switch(self.plan, carried=self.carried)
        wiring.connect(m, wiring.flipped(self.i), queue.i)
        wiring.connect(m, queue.o, sequencer.i)
        wiring.connect(m, matcher.o, switch.i)
        for inner, outer in zip(switch.o, self.o, strict=True):
            wiring.connect(m, inner, wiring.flipped(outer))

        hold = Signal()
        m.d.sync += hold.eq(matcher.throttle)
        m.d.comb += sequencer.hold.eq(hold)
        packet = sequencer.packet
        now = Signal(64)
        if any(region.timed for region in self.regions.values()):
            for number, side in enumerate("rs"):
                with m.If(sequencer.arrives[number]):
                    m.d.sync += now.eq(packet.entry[side].words.when)
        for number, (side, region) in enumerate(self.regions.items()):
            m.submodules[f"region_{side}"] = region
            m.d.comb += [
                region.last.eq(getattr(self, f"last_{side}")),
                region.young_from.eq(getattr(self, f"young_from_{side}")),
                region.keep.eq(self.keep[number]),
                region.clear.eq(sequencer.clear),
                region.arrive.eq(sequencer.arrives[number] & ~hold),
                region.entering.eq(packet.entry[side]),
                region.step.eq(sequencer.present & ~hold),
                region.row.eq(sequencer.row),
                region.first.eq(sequencer.first),
                region.ends.eq(sequencer.ends),
                region.inner.eq(packet.inner & packet.tuple),
                region.log.eq(packet.log),
                region.now.eq(now),
                getattr(sequencer, f"last_{side}").eq(region.last.row),
                getattr(sequencer, f"start_{side}").eq(region.start),
                getattr(sequencer, f"begin_{side}").eq(region.begin),
                getattr(sequencer, f"reach_{side}").eq(region.reach),
            ]

        # What goes with a row waits for the row to be read.
        probe, stars = Signal.like(matcher.probe), Signal.like(matcher.stars)
        closes = Signal()
        m.d.comb += [
            closes.eq(sequencer.present & ~hold & sequencer.ends & packet.closes),
            probe.side.eq(packet.side),
            probe.valid.eq(sequencer.present & packet.tuple & ~hold),
            probe.entry.eq(packet.entry),
            stars.closes.eq(closes),
            stars.both.eq(packet.both),
            stars.ordered.eq(packet.inner),
            stars.sync.eq(packet.sync),
            stars.hidden.eq(packet.hidden),
        ]
        for stage in range(Region.latency):
            m.d.sync += [
                (p := Signal.like(probe, name=f"probe_{stage}")).eq(probe),
                (s := Signal.like(stars, name=f"stars_{stage}")).eq(stars),
            ]
            probe, stars = p, s
        region_r, region_s = self.regions.values()
        m.d.comb += [
            matcher.probe.eq(probe),
            matcher.stars.eq(stars),
            matcher.stars.marks.eq(Mux(probe.side, region_r.marks, region_s.marks)),
        ]
        for lane, partner in enumerate(matcher.partners):
            with m.If(probe.side):
                if lane < region_r.width:
                    slot = region_r.lanes[lane]
                    m.d.comb += [partner.valid.eq(slot.valid), partner.entry.r.eq(slot.entry)]
            with m.Else():
                if lane < region_s.width:
                    slot = region_s.lanes[lane]
                    m.d.comb += [partner.valid.eq(slot.valid), partner.entry.s.eq(slot.entry)]

        with m.If(probe.valid):
            m.d.sync += self.busy.eq(self.busy + 1)
        m.d.sync += self.overflow.eq(region_r.overflow | region_s.overflow | matcher.lost)
        m.d.comb += [
            self.comparisons.eq(matcher.comparisons),
            self.peak.eq(matcher.peak),
        ]
        return m
