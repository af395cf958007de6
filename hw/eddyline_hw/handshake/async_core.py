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
    shed, o, dropped_results, comparisons, peak
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
        self.matcher = Matcher(
            plan,
            lanes=lanes,
            margin=window_latency + 1 + stages + 1 + 5,
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
                "dropped_results": Out(32),
                "comparisons": Out(32),
                "peak": Out(self.matcher.peak.shape()),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.window_r = window_r = self.windows["r"]
        m.submodules.window_s = window_s = self.windows["s"]
        m.submodules.matcher = matcher = self.matcher

        # What to do with a message is decided in one cycle and done in the next, in which the
        # message also leaves its queue: no path is longer than a decision or a deed.
        streams = [_Stream(self, side) for side in (0, 1)]
        halted, free = Signal(), Signal()
        after_r = Signal()  # the last tuple was R's: if both bring one, it is the other's turn
        m.d.sync += halted.eq(matcher.throttle & ~self.shed)
        commits = [one.commits for one in streams]
        quiet = streams[0].quiet & streams[1].quiet
        m.d.comb += free.eq(window_r.last_row & window_s.last_row & quiet & ~halted)
        # A star that is complete goes first: what comes behind it stays behind.
        stars = streams[0].star & streams[1].star
        for one, other, turn in zip(streams, reversed(streams), (~after_r, after_r), strict=True):
            one.decide(m, other, free & ~stars, turn)
        for one, other in zip(streams, reversed(streams), strict=True):
            one.act(m, other)
        taken = Signal()  # a copy of its own: it drives the wide register of the probe
        m.d.sync += taken.eq(streams[0].takes | streams[1].takes)
        with m.If(taken):
            m.d.sync += after_r.eq(commits[0])

        # Both streams have said that nothing is left before the star, and all of it is compared.
        emits = Signal()
        m.d.comb += emits.eq(stars & free)
        with m.If(emits):
            m.d.sync += [one.star.eq(0) for one in streams]

        probe = Signal.like(matcher.probe)
        m.d.sync += probe.star.eq(emits)
        with m.If(taken):
            m.d.sync += [
                probe.side.eq(commits[1]),
                probe.entry.eq(Mux(commits[1], self.right_in.p.entry, self.left_in.p.entry)),
            ]
        m.d.comb += [
            window_s.scan.eq(commits[0]),
            window_r.scan.eq(commits[1]),
            window_r.pause.eq(halted),
            window_s.pause.eq(halted),
        ]

        compared = Signal.like(probe)
        m.d.comb += compared.eq(probe)
        m.d.comb += compared.valid.eq((window_r.scanning | window_s.scanning) & ~halted)
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
            self.dropped_results.eq(matcher.dropped),
            self.comparisons.eq(matcher.comparisons),
            self.peak.eq(matcher.peak),
        ]
        return m


class _Stream:
    """One of the two streams through a core: what comes in, what is kept, what goes on.

    ``side`` is 0 for R, which comes from the left and goes to the right, and 1 for S.
    """

    def __init__(self, core, side):
        self.core, self.side, self.name = core, side, "rs"[side]
        self.own, self.opposite = core.windows[self.name], core.windows["sr"[side]]
        lefts, rights = (core.left_in, core.left_out), (core.right_in, core.right_out)
        (self.inbox, _), (_, self.onward) = (lefts, rights) if side == 0 else (rights, lefts)
        ends = (core.first, core.last)
        self.enters, self.leaves = ends if side == 0 else reversed(ends)
        self.share = (core.share_r, core.share_s)[side]

        self.wants = self._flag("wants")  # a tuple is here and can be taken
        self.takes = self._flag("takes")  # it is to be taken
        self.commits = self._flag("commits")  # it is taken
        # It is not: for decisions, while `commits` drives wide registers.
        self.quiet = Signal(name=f"quiet_{self.name}", init=1)
        self.forgets = self._flag("forgets")  # an acknowledgement is to be taken
        self.removes = self._flag("removes")  # it is taken
        self.noted = self._flag("noted")  # a star or drain is
        self.draining = self._flag("draining")
        self.star_waits, self.drain_waits = self._flag("star_waits"), self._flag("drain_waits")
        self.star = self._flag("star")  # a star has passed; the other stream's may not have

    def _flag(self, name):
        return Signal(name=f"{name}_{self.name}")

    def decide(self, m, other, free, turn):
        """Look at the message at the head of the queue, unless it is just leaving."""
        inbox, here = self.inbox, self._flag("here")
        m.d.comb += here.eq(inbox.valid & ~inbox.ready)
        is_tuple, is_ack, is_star, is_drain = (here & (inbox.p.kind == kind) for kind in Kind)

        # A tuple is seen in one cycle and taken in the next at the earliest: while it is leaving,
        # nothing is free.
        m.d.sync += self.wants.eq(is_tuple & self.own.room)
        notes = (is_star | is_drain) & ~self.star_waits & ~self.drain_waits
        m.d.comb += [
            self.takes.eq(self.wants & free & (turn | ~other.wants)),
            # At the end of the chain the acknowledgement is the window's own: it waits until the
            # tuple has come, or it would remove another one.
            self.forgets.eq(is_ack & (~self.enters | self.opposite.first_valid)),
        ]
        m.d.sync += [
            self.commits.eq(self.takes),
            self.quiet.eq(~self.takes),
            self.removes.eq(self.forgets),
            self.noted.eq(notes),
            inbox.ready.eq(self.takes | self.forgets | notes),
        ]

    def act(self, m, other):
        """Do what was decided, and send on what exceeds the core's share."""
        core, own, onward = self.core, self.own, self.onward
        exceeds, may_send = self._flag("exceeds"), self._flag("may_send")
        limit = Signal.like(self.share, name=f"limit_{self.name}")
        m.d.sync += [
            limit.eq(Mux(self.draining, 0, self.share)),
            exceeds.eq(~self.leaves & (own.unsent > limit)),
            may_send.eq(own.sent < MOST_SENT),
        ]
        # The message is sent in one cycle and the window told in the next. Acknowledgements of the
        # other stream go the same way, and first: what this stream sends later was here when the
        # acknowledged tuple came, and has been compared with it.
        answers, quiet = ~other.quiet & ~other.enters, other.quiet
        sends, sent = self._flag("sends"), self._flag("sent")
        star_passes, drain_passes = self._flag("star_passes"), self._flag("drain_passes")
        # A star follows the last tuple that has to go before it. It waits aside: the way out for
        # those tuples may be an acknowledgement that is behind the other stream's star. `waited`
        # gives a tuple just taken the time to be counted.
        waited = Signal(2, name=f"waited_{self.name}")
        m.d.sync += waited.eq(Mux(self.star_waits, waited << 1 | 1, 0))
        m.d.comb += [
            sends.eq(exceeds & own.first_valid & may_send & quiet & ~self.drain_waits & ~sent),
            star_passes.eq(self.star_waits & waited.all() & ~exceeds & ~self.star & quiet),
            drain_passes.eq(self.drain_waits & quiet),
        ]
        with m.If(self.noted):
            m.d.sync += [
                self.star_waits.eq(self.inbox.p.kind == Kind.STAR),
                self.drain_waits.eq(self.inbox.p.kind == Kind.DRAIN),
            ]
            with m.If(self.inbox.p.kind == Kind.DRAIN):
                m.d.sync += self.draining.eq(1)
        with m.If(drain_passes):
            m.d.sync += self.drain_waits.eq(0)
        with m.If(star_passes):
            m.d.sync += [self.star.eq(1), self.star_waits.eq(0), self.draining.eq(0)]

        # A tuple is kept, compared (by the core) and acknowledged; the source needs no answer.
        m.d.sync += [
            sent.eq(sends),
            own.pass_on.eq(sends | (other.forgets & self.leaves)),
        ]
        m.d.comb += [
            own.insert.eq(self.commits),
            own.entering.eq(self.inbox.p.entry),
            own.remove.eq(other.removes),
        ]

        # At the far end only the star goes on, home to the source. Nobody looks at `ready`: a link
        # has room for all that may be under way.
        m.d.sync += [
            onward.valid.eq(answers | star_passes | (drain_passes & ~self.leaves) | sends),
            onward.p.entry.eq(own.first),
        ]
        with m.If(~quiet):
            m.d.sync += onward.p.kind.eq(Kind.ACK)
        with m.Elif(self.star_waits & ~exceeds):
            m.d.sync += onward.p.kind.eq(Kind.STAR)
        with m.Elif(self.drain_waits):
            m.d.sync += onward.p.kind.eq(Kind.DRAIN)
        with m.Else():
            m.d.sync += onward.p.kind.eq(Kind.TUPLE)

        guard = OverflowGuard(core.plan, side=self.name)
        m.submodules[f"guard_{self.name}"] = guard
        m.d.comb += [
            guard.leaves.eq(other.removes & self.leaves & other.inbox.p.pushed),
            guard.old.eq(own.first),
            guard.new.eq(other.inbox.p.entry),
            guard.keep.eq(core.keep[self.side]),
        ]
        with m.If(guard.overflow):
            m.d.sync += core.overflow.eq(1)
