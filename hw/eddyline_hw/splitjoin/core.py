"""One core: a share of both windows, and the comparators that both use."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.layouts import entry_layout
from eddyline_hw.splitjoin.layouts import item_layout, packet_layout, pair_layout
from eddyline_hw.splitjoin.matcher import PunctuatedMatcher
from eddyline_hw.splitjoin.region import Region
from eddyline_hw.splitjoin.sequencer import Sequencer
from eddyline_hw.splitjoin.serializer import PunctuatedSerializer
from eddyline_hw.stream.room import RoomQueue
from eddyline_hw.stream.tickets import TicketQueue
from eddyline_hw.tally import tally
from eddyline_hw.window.signature import place_layout

__all__ = ["SplitCore"]


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
    flight : int
        Cycles from a look at ``room`` to the packet that comes of it.
    memory : str
        See :class:`eddyline_hw.splitjoin.region.Region`.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    push, packet : In
        A packet comes in this cycle.
    entry : ``In(entry_layout(plan))``
        The tuple of the packet that came in the last cycle.
    room : ``Out(1)``
        Another packet may be sent here.
    taken : ``In(2)``
        There is room for results of R arrivals, of S arrivals.
    sends : ``Out(2)``
        An item comes in this cycle for the stream of R arrivals, of S arrivals; from flip-flops,
        like what belongs to it.
    item : ``Out(item_layout())``
        A result or a star.
    pair : ``Out(pair_layout(plan, carried))``
        What belongs to the item of two cycles ago.
    last_r, last_s, young_from_r, young_from_s : In
        Settings of the regions.
    keep : ``In(2)``
        No tuple of R, of S, may ever be overwritten.
    held : ``Out(1)``
        Rows with results wait, so no other row is looked at.
    overflow : ``Out(1)``
        A tuple was overwritten that had to stay, or a queue was overrun.
    comparisons, busy, peak : Out
        Pairs compared, cycles in which the comparators had a row, most rows with hits queued.
    """

    flight = PunctuatedSerializer.flight  # from `taken` to an item
    lag = PunctuatedSerializer.lag

    def __init__(
        self,
        plan,
        *,
        position,
        cores,
        slots_r,
        slots_s,
        lanes,
        stages,
        flight,
        memory="auto",
        carried=(),
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
        # While packets come that were sent for after a stop, there must be some to work on: they
        # take two cycles each, or there would have been no stop.
        depth = max(16, 1 << (flight + flight // 2 + RoomQueue.BEHIND + 2).bit_length())
        self.queue = TicketQueue(
            packet_layout(), entry_layout(plan), depth=depth, flight=flight, lag=1
        )
        self.sequencer = Sequencer(rows=max(one.rows for one in self.regions.values()))
        self.matcher = PunctuatedMatcher(
            plan, lanes=lanes, flight=2 + Region.latency, stages=stages, carried=carried
        )
        super().__init__(
            {
                "push": In(1),
                "packet": In(packet_layout()),
                "entry": In(entry_layout(plan)),
                "room": Out(1),
                "taken": In(2),
                "sends": Out(2),
                "item": Out(item_layout()),
                "pair": Out(pair_layout(plan, carried)),
                **{
                    f"last_{side}": In(place_layout(one.slots, one.width))
                    for side, one in self.regions.items()
                },
                "young_from_r": In(range(cores)),
                "young_from_s": In(range(cores)),
                "keep": In(2),
                "held": Out(1),
                "overflow": Out(1),
                "comparisons": Out(32),
                "busy": Out(32),
                "peak": Out(self.matcher.peak.shape()),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.queue = queue = self.queue
        m.submodules.sequencer = sequencer = self.sequencer
        m.submodules.matcher = self.matcher
        m.d.comb += [
            queue.push.eq(self.push),
            queue.head.eq(self.packet),
            queue.body.eq(self.entry),
            self.room.eq(queue.room),
            self.held.eq(~self.matcher.room),
            sequencer.hold.eq(self.held),
        ]
        wiring.connect(m, queue.o, sequencer.i)
        for number, (side, region) in enumerate(self.regions.items()):
            m.submodules[f"region_{side}"] = region
            m.d.comb += [
                region.last.eq(getattr(self, f"last_{side}")),
                region.young_from.eq(getattr(self, f"young_from_{side}")),
                region.keep.eq(self.keep[number]),
                region.clear.eq(sequencer.clear),
                region.arriving.eq(sequencer.arriving[number]),
                region.entering.eq(queue.follows[side]),
                region.step.eq(sequencer.step),
                region.row.eq(sequencer.row),
                region.first.eq(sequencer.first),
                region.ends.eq(sequencer.ends),
                region.inner.eq(sequencer.packet.inner & sequencer.packet.tuple),
                region.log.eq(sequencer.packet.log),
                getattr(sequencer, f"last_{side}").eq(region.last.row),
            ]
            flags = ("start_last", "begin_last", "sole", "pair", "triple", "only")
            for name in ("start", "begin", "reach", *flags):
                m.d.comb += getattr(sequencer, f"{name}_{side}").eq(getattr(region, name))
        self._tell_time(m)
        self._compare(m)
        self._send(m)
        return m

    def _tell_time(self, m):
        if not any(region.timed for region in self.regions.values()):
            return
        now, arrived = Signal(64), Signal(2)
        m.d.sync += arrived.eq(self.sequencer.arrives)
        for number, (side, region) in enumerate(self.regions.items()):
            with m.If(arrived[number]):
                m.d.sync += now.eq(self.queue.follows[side].words.when)
            m.d.comb += region.now.eq(now)

    def _compare(self, m):
        """Bring what goes with a row to the matcher when the row has been read."""
        sequencer, matcher, packet = self.sequencer, self.matcher, self.sequencer.packet
        probe, stars = Signal.like(matcher.probe), Signal.like(matcher.stars)
        m.d.comb += [
            probe.side.eq(packet.side),
            probe.valid.eq(sequencer.step & packet.tuple),
            stars.closes.eq(sequencer.step & sequencer.ends & packet.closes),
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
            if stage == 1:  # when the tuple is there
                m.d.sync += p.entry.eq(self.queue.follows)
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
        tally(m, self.busy, probe.valid)
        m.d.comb += [self.comparisons.eq(matcher.comparisons), self.peak.eq(matcher.peak)]

    def _send(self, m):
        """Send items as long as there is room for either side's."""
        matcher = self.matcher
        m.d.comb += [
            # At once: a cycle more on the way, and a queue would need twice the depth.
            matcher.taken.eq(self.taken.all()),
            self.sends.eq(matcher.sends),
            self.item.eq(matcher.item),
            self.pair.eq(matcher.pair),
        ]
        lost = Signal()
        m.d.sync += [
            lost.eq(matcher.overrun | self.queue.overrun),
            self.overflow.eq(self.regions["r"].overflow | self.regions["s"].overflow | lost),
        ]
