"""One core of the asynchronous chain: figure 7, with its errata mended."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.held_window import HeldWindow
from eddyline_hw.handshake.link import Kind, link_layout
from eddyline_hw.handshake.matcher import Matcher
from eddyline_hw.handshake.overflow import OverflowGuard
from eddyline_hw.layouts import entry_layout, result_layout
from eddyline_hw.stream.buffer import Buffer

__all__ = ["MOST_SENT", "SLACK", "AsyncCore"]

# Tuples that may be on their way to a neighbour, not yet acknowledged.
MOST_SENT = 4
# Slots beyond a core's share. More than the queues at the ends hold, or both streams could wait
# for each other for ever: see docs/handshake.md.
SLACK = 14


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
        entry = entry_layout(plan)
        self.windows = {
            side: HeldWindow(
                entry,
                slots=slots + SLACK,
                lanes=lanes,
                memory=memory,
                # Of two tuples that cross, the R tuple's core compares them.
                skip_sent=side == "r" and not as_printed,
            )
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

        link = link_layout(self.plan)
        m.submodules.window_r = window_r = self.windows["r"]
        m.submodules.window_s = window_s = self.windows["s"]
        m.submodules.matcher = matcher = self.matcher
        # What arrives is looked at in a register: the way from a decision to the queues is short.
        inboxes = []
        for name, port in (("left", self.left_in), ("right", self.right_in)):
            m.submodules[f"inbox_{name}"] = inbox = Buffer(link)
            wiring.connect(m, wiring.flipped(port), inbox.i)
            inboxes.append(inbox.o)

        # A tuple is taken in one cycle and gets into effect in the next one: then it is stored, the
        # scan begins, and its acknowledgement is sent.
        takes = [Signal(name=f"takes_{side}") for side in "rs"]
        commits = [Signal(name=f"commits_{side}") for side in "rs"]
        free = Signal()
        m.d.comb += free.eq(
            window_r.last_row
            & window_s.last_row
            & ~commits[0]
            & ~commits[1]
            & (~matcher.throttle | self.shed)
        )
        streams = [_Stream(self, m, side, inboxes[side], commits) for side in (0, 1)]
        for one, other in (streams, reversed(streams)):
            one.connect(other, free, takes[one.side])
        brings = [one.brings for one in streams]

        after_r = Signal()  # the last tuple was R's: if both bring one, it is the other's turn
        m.d.comb += [
            takes[0].eq(brings[0] & ~(brings[1] & after_r)),
            takes[1].eq(brings[1] & ~(brings[0] & ~after_r)),
        ]
        with m.If(takes[0] | takes[1]):
            m.d.sync += after_r.eq(takes[0])
        m.d.sync += [commit.eq(take) for commit, take in zip(commits, takes, strict=True)]

        # Both streams have said that nothing is left before the star, and all of it is compared.
        emits = Signal()
        stars = [one.star for one in streams]
        m.d.comb += emits.eq(stars[0] & stars[1] & free & ~brings[0] & ~brings[1])
        with m.If(emits):
            m.d.sync += [star.eq(0) for star in stars]

        arriving = [Signal(entry_layout(self.plan), name=f"arriving_{side}") for side in "rs"]
        for entry, inbox, window in zip(arriving, inboxes, (window_r, window_s), strict=True):
            m.d.sync += entry.eq(inbox.p.entry)
            m.d.comb += window.entering.eq(entry)
        probe = Signal.like(matcher.probe)
        m.d.sync += probe.star.eq(emits)
        with m.If(commits[0] | commits[1]):
            m.d.sync += [
                probe.side.eq(commits[1]),
                probe.entry.eq(Mux(commits[1], arriving[1], arriving[0])),
            ]
        m.d.comb += [window_s.scan.eq(commits[0]), window_r.scan.eq(commits[1])]

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


class _Stream:
    """One of the two streams through a core: what comes in, what is kept, what goes on.

    ``side`` is 0 for R, which comes from the left and goes to the right, and 1 for S.
    """

    def __init__(self, core, m, side, inbox, commits):
        name = "rs"[side]
        self.core, self.m, self.side, self.inbox, self.commits = core, m, side, inbox, commits
        self.own, self.opposite = core.windows[name], core.windows["sr"[side]]
        self.onward, self.back = (
            (core.right_out, core.left_out) if side == 0 else (core.left_out, core.right_out)
        )
        ends = (core.first, core.last)
        self.enters, self.leaves = ends if side == 0 else reversed(ends)
        self.share = (core.share_r, core.share_s)[side]
        self.is_tuple, self.is_ack, self.is_star, self.is_drain = (
            inbox.valid & (inbox.p.kind == kind) for kind in Kind
        )
        self.brings = Signal(name=f"brings_{name}")  # a tuple could be taken
        self.star = Signal(name=f"star_{name}")  # a star has come and waits for the other's
        self.speaks = Signal(name=f"speaks_{name}")  # something goes on in this cycle
        self.drops = Signal(name=f"drops_{name}")  # the oldest leaves the chain here

    def connect(self, other, free, takes):
        m, core, name = self.m, self.core, "rs"[self.side]
        own, opposite, inbox, onward = self.own, self.opposite, self.inbox, self.onward

        draining = Signal(name=f"draining_{name}")
        exceeds = Signal(name=f"exceeds_{name}")  # more is here than should stay
        may_send = Signal(name=f"may_send_{name}")
        m.d.sync += [
            exceeds.eq(~self.leaves & (own.unsent > Mux(draining, 0, self.share))),
            may_send.eq(own.sent < MOST_SENT),
        ]
        # The other stream's acknowledgements go the same way, and first.
        onward_free = Signal(name=f"onward_free_{name}")
        m.d.comb += onward_free.eq((~onward.valid | onward.ready) & ~self.commits[1 - self.side])

        # A tuple is kept, compared (by the core) and acknowledged; the source needs no answer.
        sends = Signal(name=f"sends_{name}")
        answers = self.enters | ((~self.back.valid | self.back.ready) & ~other.speaks)
        m.d.comb += [
            self.brings.eq(self.is_tuple & free & own.room & answers),
            own.insert.eq(self.commits[self.side]),
            sends.eq(exceeds & own.first_valid & may_send & onward_free),
            own.pass_on.eq(sends | self.drops),
        ]

        # A star follows the last tuple that has to go before it. It waits aside: the way out for
        # those tuples may be an acknowledgement that is behind the other stream's star. `waited`
        # gives a tuple just taken the time to be counted.
        star_waits = Signal(name=f"star_waits_{name}")
        waited = Signal(2, name=f"waited_{name}")
        drain_waits = Signal(name=f"drain_waits_{name}")
        notes = Signal(name=f"notes_{name}")
        star_passes = Signal(name=f"star_passes_{name}")
        drain_passes = Signal(name=f"drain_passes_{name}")
        m.d.comb += [
            notes.eq((self.is_star | self.is_drain) & ~star_waits & ~drain_waits),
            star_passes.eq(star_waits & waited.all() & ~exceeds & ~self.star & onward_free),
            drain_passes.eq(drain_waits & onward_free & ~sends),
            self.speaks.eq(sends | star_passes | drain_passes),
        ]
        m.d.sync += waited.eq(Mux(star_waits, waited << 1 | 1, 0))
        with m.If(notes):
            m.d.sync += [star_waits.eq(self.is_star), drain_waits.eq(self.is_drain)]
            with m.If(self.is_drain):
                m.d.sync += draining.eq(1)
        with m.If(drain_passes):
            m.d.sync += drain_waits.eq(0)
        with m.If(star_passes):
            m.d.sync += [self.star.eq(1), star_waits.eq(0), draining.eq(0)]

        # An acknowledgement removes the other stream's oldest. At the end of the chain it is the
        # window's own: it waits until the tuple has come, or it would remove another one.
        removes = Signal(name=f"removes_{'sr'[self.side]}")
        guard = OverflowGuard(core.plan, side="sr"[self.side])
        m.submodules[f"guard_{'sr'[self.side]}"] = guard
        m.d.comb += [
            removes.eq(self.is_ack & (~self.enters | opposite.first_valid)),
            opposite.remove.eq(removes),
            other.drops.eq(removes & self.enters),
            inbox.ready.eq(takes | removes | notes),
            guard.leaves.eq(removes & self.enters & inbox.p.pushed),
            guard.old.eq(opposite.first),
            guard.new.eq(inbox.p.entry),
            guard.keep.eq(core.keep[1 - self.side]),
        ]
        with m.If(guard.overflow):
            m.d.sync += core.overflow.eq(1)

        # At the far end only the star goes on, home to the source.
        acknowledges = self.commits[1 - self.side]
        with m.If(~onward.valid | onward.ready):
            m.d.sync += [
                onward.valid.eq(star_passes | (~self.leaves & (self.speaks | acknowledges))),
                onward.p.entry.eq(own.first),
            ]
            with m.If(acknowledges):
                m.d.sync += onward.p.kind.eq(Kind.ACK)
            with m.Elif(star_passes):
                m.d.sync += onward.p.kind.eq(Kind.STAR)
            with m.Elif(drain_passes):
                m.d.sync += onward.p.kind.eq(Kind.DRAIN)
            with m.Else():
                m.d.sync += onward.p.kind.eq(Kind.TUPLE)
