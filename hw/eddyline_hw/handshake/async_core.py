"""One core of the asynchronous chain: figure 7, with its errata mended."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.held_window import HeldWindow
from eddyline_hw.handshake.link import Kind, link_layout
from eddyline_hw.handshake.matcher import Matcher
from eddyline_hw.handshake.overflow import OverflowGuard
from eddyline_hw.layouts import entry_layout, result_layout

__all__ = ["MOST_SENT", "SLACK", "AsyncCore"]

# Tuples that may be on their way to a neighbour, not yet acknowledged.
MOST_SENT = 4
# Slots beyond a core's share. More than the queues at the ends hold, or both streams could wait
# for each other for ever: see docs/handshake.md.
SLACK = 10


class AsyncCore(wiring.Component):
    """Hold a segment of both windows, talk to the two neighbours and to nobody else.

    A tuple that comes in is acknowledged, compared with the opposite segment and kept. While more
    tuples are here than the core's share, the oldest is sent on, and kept until its
    acknowledgement comes. An R tuple meets sent S tuples too; an S tuple skips sent R tuples:
    of two tuples that cross on the way, only one side compares them. (The printed listing compares
    on both.)

    Parameters
    ----------
    plan : Plan
        Gives predicate and layouts.
    segment_r, segment_s : int
        Largest shares.
    lanes : int
        Comparators.
    stages : int
        Registers inside the predicate.
    memory : str
        ``lutram`` or ``bram``.
    carried : iterable of str
        Words of R that come along in the results.
    as_printed : bool
        Compare on both sides, as the paper's figure 7 does; for tests.

    Members
    -------
    left_in, right_in, left_out, right_out : streams of :func:`link_layout`
        From the left come R tuples and acknowledgements of S, from the right the mirror image.
    share_r, share_s : In
        Tuples to keep.
    first, last : ``In(1)``
        This core is at an end of the chain: there the acknowledgements are the windows' own.
    keep : ``In(2)``
        No tuple of R, of S, may ever leave.
    overflow : ``Out(1)``
        A tuple left while still young.
    shed, o, dropped, comparisons, peak
        See :class:`eddyline_hw.handshake.matcher.Matcher`.
    """

    def __init__(
        self,
        plan,
        *,
        segment_r,
        segment_s,
        lanes,
        stages=2,
        memory="lutram",
        carried=(),
        as_printed=False,
    ):
        self.plan = plan
        self.as_printed = as_printed
        entry = entry_layout(plan)
        self.windows = {
            side: HeldWindow(entry, slots=slots + SLACK, lanes=lanes, memory=memory)
            for side, slots in (("r", segment_r), ("s", segment_s))
        }
        window_latency = self.windows["r"].latency
        rows = max(one.rows for one in self.windows.values())
        self.matcher = Matcher(
            plan,
            lanes=lanes,
            margin=rows + window_latency + 2 + 1 + stages + 1 + 3,
            stages=stages,
            carried=carried,
        )
        link = stream.Signature(link_layout(plan))
        super().__init__(
            {
                "left_in": In(link),
                "right_in": In(link),
                "left_out": Out(link),
                "right_out": Out(link),
                "share_r": In(range(segment_r + 1)),
                "share_s": In(range(segment_s + 1)),
                "first": In(1),
                "last": In(1),
                "keep": In(2),
                "overflow": Out(1),
                "shed": In(1),
                "o": Out(stream.Signature(result_layout(plan, carried))),
                "dropped": Out(32),
                "comparisons": Out(32),
                "peak": Out(self.matcher.peak.shape()),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.window_r = window_r = self.windows["r"]
        m.submodules.window_s = window_s = self.windows["s"]
        m.submodules.matcher = matcher = self.matcher

        free = Signal()  # the comparators can start with another tuple
        m.d.comb += free.eq(window_r.last_row & window_s.last_row & (~matcher.throttle | self.shed))
        takes_r, takes_s = Signal(), Signal()
        drops = [Signal(name=f"drops_{side}") for side in "rs"]
        brings_r, star_r = self._stream(m, 0, free, takes_r, takes_s, drops)
        brings_s, star_s = self._stream(m, 1, free, takes_s, takes_r, drops)

        after_r = Signal()  # the last tuple was R's: if both bring one, it is the other's turn
        m.d.comb += [
            takes_r.eq(brings_r & ~(brings_s & after_r)),
            takes_s.eq(brings_s & ~(brings_r & ~after_r)),
        ]
        with m.If(takes_r | takes_s):
            m.d.sync += after_r.eq(takes_r)

        # Both streams have said that nothing is left before the star, and all of it is compared.
        emits = Signal()
        m.d.comb += emits.eq(star_r & star_s & free & ~takes_r & ~takes_s)
        with m.If(emits):
            m.d.sync += [star_r.eq(0), star_s.eq(0)]

        probe = Signal.like(matcher.probe)
        m.d.sync += probe.star.eq(emits)
        with m.If(takes_r | takes_s):
            m.d.sync += [
                probe.side.eq(takes_s),
                probe.entry.eq(Mux(takes_s, self.right_in.p.entry, self.left_in.p.entry)),
            ]
        m.d.comb += [
            window_s.scan.eq(takes_r),
            window_r.scan.eq(takes_s),
            window_r.skip_sent.eq(0 if self.as_printed else 1),
        ]
        compared = Signal.like(probe)
        m.d.comb += compared.eq(probe)
        m.d.comb += compared.valid.eq(window_r.scanning | window_s.scanning)
        for _ in range(window_r.latency):
            m.d.sync += (later := Signal.like(compared)).eq(compared)
            compared = later
        m.d.comb += matcher.probe.eq(compared)
        for partner, from_r, from_s in zip(
            matcher.partners, window_r.lanes, window_s.lanes, strict=True
        ):
            m.d.comb += partner.eq(Mux(compared.side, from_r, from_s))

        wiring.connect(m, matcher.o, wiring.flipped(self.o))
        m.d.comb += [
            matcher.shed.eq(self.shed),
            self.dropped.eq(matcher.dropped),
            self.comparisons.eq(matcher.comparisons),
            self.peak.eq(matcher.peak),
        ]
        return m

    def _stream(self, m, side, free, takes, other_takes, drops):
        """Handle one stream: what comes in, what is kept, what goes on.

        ``side`` is 0 for R, which comes from the left and goes to the right, and 1 for S. With
        ``takes`` a tuple of this stream is taken in this cycle; with ``other_takes`` one of the
        other stream is, and acknowledged on the port that this one goes on by. ``drops`` says, for
        R and S, that the oldest tuple leaves the chain here.

        Returns two signals: a tuple could be taken; a star has come and waits for the other's.
        """
        name = "rs"[side]
        own, opposite = self.windows[name], self.windows["sr"[side]]
        inbox, back = ((self.left_in, self.left_out), (self.right_in, self.right_out))[side]
        onward = (self.right_out, self.left_out)[side]
        enters, leaves = ((self.first, self.last), (self.last, self.first))[side]
        share = (self.share_r, self.share_s)[side]
        m.submodules[f"guard_{'sr'[side]}"] = guard = OverflowGuard(self.plan, side="sr"[side])

        draining = Signal(name=f"draining_{name}")
        star = Signal(name=f"star_{name}")
        exceeds = Signal(name=f"exceeds_{name}")  # more is here than should stay
        m.d.sync += exceeds.eq(~leaves & (own.unsent > Mux(draining, 0, share)))
        onward_free = Signal(name=f"onward_free_{name}")
        m.d.comb += onward_free.eq((~onward.valid | onward.ready) & ~other_takes)
        brings = Signal(name=f"brings_{name}")
        is_tuple, is_ack, is_star, is_drain = (
            inbox.valid & (inbox.p.kind == kind) for kind in Kind
        )

        # A tuple is kept, compared (by the caller) and acknowledged; the source needs no answer.
        sends = Signal(name=f"sends_{name}")
        m.d.comb += [
            brings.eq(is_tuple & free & own.room & (enters | ~back.valid | back.ready)),
            own.insert.eq(takes),
            own.entering.eq(inbox.p.entry),
            sends.eq(exceeds & own.first_valid & (own.sent < MOST_SENT) & onward_free),
        ]

        # A star follows the last tuple that has to go before it. It waits aside: the way out for
        # those tuples may be an acknowledgement that is behind the other stream's star.
        star_waits = Signal(name=f"star_waits_{name}")
        drain_waits = Signal(name=f"drain_waits_{name}")
        notes = Signal(name=f"notes_{name}")
        star_passes = Signal(name=f"star_passes_{name}")
        m.d.comb += [
            notes.eq((is_star | is_drain) & ~star_waits & ~drain_waits),
            star_passes.eq(star_waits & ~exceeds & ~star & onward_free),
        ]
        with m.If(notes):
            m.d.sync += [star_waits.eq(is_star), drain_waits.eq(is_drain)]
            with m.If(is_drain):
                m.d.sync += draining.eq(1)
        with m.If(drain_waits & onward_free & ~sends):
            m.d.sync += drain_waits.eq(0)
        with m.If(star_passes):
            m.d.sync += [star.eq(1), star_waits.eq(0), draining.eq(0)]

        # An acknowledgement removes the other stream's oldest. At the end of the chain it is the
        # window's own: it waits until the tuple has come, or it would remove another one.
        removes = Signal(name=f"removes_{'sr'[side]}")
        m.d.comb += [
            removes.eq(is_ack & (~enters | opposite.first_valid)),
            opposite.remove.eq(removes),
            drops[1 - side].eq(removes & enters),
            own.pass_on.eq(sends | drops[side]),
            inbox.ready.eq(takes | removes | notes),
            guard.leaves.eq(removes & enters & inbox.p.pushed),
            guard.old.eq(opposite.first),
            guard.new.eq(inbox.p.entry),
            guard.keep.eq(self.keep[1 - side]),
        ]
        with m.If(guard.overflow):
            m.d.sync += self.overflow.eq(1)

        # At the far end only the star goes on, home to the source.
        with m.If(~onward.valid | onward.ready):
            m.d.sync += [
                onward.valid.eq(star_passes | (~leaves & (sends | drain_waits | other_takes))),
                onward.p.entry.eq(own.first),
            ]
            with m.If(other_takes):
                m.d.sync += onward.p.kind.eq(Kind.ACK)
            with m.Elif(sends):
                m.d.sync += onward.p.kind.eq(Kind.TUPLE)
            with m.Elif(star_passes):
                m.d.sync += onward.p.kind.eq(Kind.STAR)
            with m.Else():
                m.d.sync += onward.p.kind.eq(Kind.DRAIN)
        return brings, star
