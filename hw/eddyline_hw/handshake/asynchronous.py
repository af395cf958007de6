"""The asynchronous chain: neighbours joined by queues (sections 4.2 and 4.3)."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.admission import Policy
from eddyline_hw.handshake.async_core import MOST_SENT, SLACK, AsyncCore
from eddyline_hw.handshake.geometry import Segments, require_fit
from eddyline_hw.handshake.link import link_layout
from eddyline_hw.handshake.source import Source
from eddyline_hw.layouts import message_layout, result_layout
from eddyline_hw.readout import read_out
from eddyline_hw.stream.mailbox import Mailbox
from eddyline_hw.window import MOST_ROWS_IN_LUTRAM

__all__ = ["AsyncChain"]

# Tuples and acknowledgements on their way, each bounded by MOST_SENT, and a few stars and drains:
# a link never fills, so two neighbours never wait for each other.
LINK_DEPTH = 4 * MOST_SENT
# The source sends while both queues at the ends have room for what may be under way to them.
ENTRY_DEPTH = 8
ENTRY_ROOM = 4


class AsyncChain(wiring.Component):
    """Join two streams in a row of cores that only talk to their neighbours.

    Results are those of :class:`eddyline_hw.handshake.lockstep.LockstepChain`. No signal crosses
    more than one core, so the clock does not fall with the length of the chain. In steady state a
    core needs a cycle per occupied row of the opposite segment for each tuple.

    Parameters and members are those of the lock-step chain, except that there is one counter of
    waiting, ``waited``: a tuple simply waits until the end of the chain takes it.
    """

    kind = "asynchronous"

    def __init__(
        self,
        plan,
        *,
        cores,
        window_r,
        window_s,
        lanes=1,
        stages=2,
        window="auto",
        carried=(),
        as_printed=False,
    ):
        if window not in ("auto", "lutram", "bram"):
            raise ValueError(f"no window kind {window!r} (known: auto, lutram, bram)")
        self.plan = plan
        self.cores = cores
        self.capacity = {"r": window_r, "s": window_s}
        segments = {
            side: Segments(cores, size, lockstep=False).largest
            for side, size in self.capacity.items()
        }
        self.lanes = min(lanes, max(segments.values()))
        rows = max(-(-slots // self.lanes) for slots in segments.values())
        if window == "auto":
            window = "lutram" if rows <= MOST_ROWS_IN_LUTRAM else "bram"
        self.core = [
            AsyncCore(
                plan,
                segment_r=segments["r"],
                segment_s=segments["s"],
                lanes=self.lanes,
                stages=stages,
                memory=window,
                carried=carried,
                as_printed=as_printed,
            )
            for _ in range(cores)
        ]
        # A tuple of either stream may be compared before the next one is taken.
        patience = 2 * (rows + -(-SLACK // self.lanes)) + 16
        self.source = Source(plan, window_r=window_r, window_s=window_s, patience=patience)
        members = {
            "i": In(stream.Signature(message_layout(plan))),
            "o": Out(stream.Signature(result_layout(plan, carried))).array(cores),
            "policy": In(Policy),
            "selected": In(range(max(cores, 2))),
            "keep": In(2),
            "overflow": Out(1),
            "dropped_tuples": Out(32),
            "waited": Out(32),
            "dropped_results": Out(32),
            "comparisons": Out(32),
            "peak": Out(self.core[0].peak.shape()),
        }
        for side, size in self.capacity.items():
            members |= {
                f"window_{side}": In(range(size + 1)),
                f"base_{side}": In(range(segments[side] + 1)),
                f"extra_{side}": In(range(max(cores, 2))),
            }
        super().__init__(members)

    def settings(self, window_r, window_s, *, policy=Policy.WAIT, keep_r=False, keep_s=False):
        """Return the values of all settings for windows of these sizes."""
        values = {"policy": policy.value, "keep": keep_r | keep_s << 1}
        for side, size in (("r", window_r), ("s", window_s)):
            require_fit(side, size, self.capacity[side])
            share = Segments(self.cores, size, lockstep=False)
            values |= {
                f"window_{side}": size,
                f"base_{side}": share.base,
                f"extra_{side}": share.extra,
            }
        return values

    def elaborate(self, platform):
        m = Module()

        link = link_layout(self.plan)
        m.submodules.source = source = self.source
        wiring.connect(m, wiring.flipped(self.i), source.i)
        m.d.comb += [
            source.policy.eq(self.policy),
            source.window_r.eq(self.window_r),
            source.window_s.eq(self.window_s),
            self.dropped_tuples.eq(source.dropped),
            self.waited.eq(source.waited),
        ]

        def queue(name, sender, receiver, depth):
            m.submodules[name] = mailbox = Mailbox(link, depth=depth)
            wiring.connect(m, sender, mailbox.i)
            wiring.connect(m, mailbox.o, receiver)
            return mailbox

        left = queue("enter_left", source.left, self.core[0].left_in, ENTRY_DEPTH)
        right = queue("enter_right", source.right, self.core[-1].right_in, ENTRY_DEPTH)
        most = ENTRY_DEPTH - ENTRY_ROOM
        m.d.sync += source.room.eq((left.level <= most) & (right.level <= most))
        for number, (left, right) in enumerate(zip(self.core, self.core[1:], strict=False)):
            queue(f"rightward{number}", left.right_out, right.left_in, LINK_DEPTH)
            queue(f"leftward{number}", right.left_out, left.right_in, LINK_DEPTH)
        wiring.connect(m, self.core[0].left_out, source.left_home)
        wiring.connect(m, self.core[-1].right_out, source.right_home)

        for position, core in enumerate(self.core):
            m.submodules[f"core{position}"] = core
            m.d.comb += [
                core.first.eq(position == 0),
                core.last.eq(position == self.cores - 1),
            ]
            m.d.sync += [
                core.shed.eq(self.policy == Policy.DROP_RESULTS),
                core.keep.eq(self.keep),
                core.share_r.eq(self.base_r + (position < self.extra_r)),
                core.share_s.eq(self.base_s + (self.cores - 1 - position < self.extra_s)),
            ]
            wiring.connect(m, core.o, wiring.flipped(self.o[position]))
        m.d.sync += self.overflow.eq(self.core[0].overflow | self.core[-1].overflow)

        read_out(m, self, ("dropped_results", "comparisons", "peak"), self.core)
        return m
