"""The two ends of the asynchronous chain: where tuples come in and windows are kept to size."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.admission import Policy
from eddyline_hw.handshake.link import Kind, link_layout
from eddyline_hw.layouts import message_layout

__all__ = ["Source"]


class Source(wiring.Component):
    """Send tuples to their end of the chain, and to the other end what they push out.

    R tuples go to the left end, S tuples to the right one. Once a window is full, every tuple
    also sends an acknowledgement to the opposite end, which removes the oldest there (section
    4.3). Both messages are sent in the same cycle, so the two ends see arrivals in the same order.

    A flush makes all tuples walk to their far end and be removed there: every pair meets. After a
    star nothing is sent until it has come home from both streams, so that a core never has to
    hold tuples back behind a star.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    window_r, window_s : int
        Largest windows that can be set.
    patience : int
        Cycles that a tuple may have to wait while the chain is only busy.

    Members
    -------
    i : ``In(stream.Signature(message_layout(plan)))``
        Messages.
    left, right : ``Out(stream.Signature(link_layout(plan)))``
        To the ends of the chain. Nobody looks at ``ready``.
    room : ``In(1)``
        Both ends can take another message; it is on its way for three cycles.
    left_home, right_home : ``In(stream.Signature(link_layout(plan)))``
        From the ends of the chain.
    window_r, window_s : In
        Sizes of the windows.
    policy : ``In(Policy)``
        ``DROP_NEW`` drops tuples while the chain has not moved for longer than comparing takes:
        results do not leave fast enough.
    dropped, waited : ``Out(32)``
        Tuples dropped, cycles in which a tuple waited.
    """

    def __init__(self, plan, *, window_r, window_s, patience):
        self.plan = plan
        self.patience = patience
        link = stream.Signature(link_layout(plan))
        super().__init__(
            {
                "i": In(stream.Signature(message_layout(plan))),
                "left": Out(link),
                "right": Out(link),
                "room": In(1),
                "left_home": In(link),
                "right_home": In(link),
                "window_r": In(range(window_r + 1)),
                "window_s": In(range(window_s + 1)),
                "policy": In(Policy),
                "dropped": Out(32),
                "waited": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()

        ends = (self.left, self.right)
        windows = (self.window_r, self.window_s)
        # Whether a window is full or empty is decided when it changes: nothing waits for that.
        full = [Signal(name=f"full_{i}") for i in range(2)]
        empty = [Signal(name=f"empty_{i}", init=1) for i in range(2)]
        held = [Signal.like(window, name=f"held_{i}") for i, window in enumerate(windows)]
        last = [Signal.like(window, name=f"last_{i}") for i, window in enumerate(windows)]
        m.d.sync += [one.eq(window - 1) for one, window in zip(last, windows, strict=True)]
        can = self.room
        still = Signal(range(self.patience + 1))  # cycles since the chain last took something
        blocked = Signal()
        m.d.sync += blocked.eq((still == self.patience) & ~can)
        with m.If(can):
            m.d.sync += still.eq(0)
        with m.Elif(still != self.patience):
            m.d.sync += still.eq(still + 1)
        for end in ends:
            # The tuple is there whatever is sent: only few bits wait for the decision.
            m.d.sync += [end.valid.eq(0), end.p.entry.eq(self.i.p.entry)]

        def send(end, kind, pushed=0):
            m.d.sync += [
                end.valid.eq(1),
                end.p.kind.eq(kind),
                end.p.pushed.eq(pushed),
            ]

        away = [Signal(name=f"away_{side}") for side in "rs"]  # a star has not come home yet
        homes = (self.right_home, self.left_home)
        for star, home in zip(away, homes, strict=True):
            m.d.comb += home.ready.eq(1)
            with m.If(home.valid & (home.p.kind == Kind.STAR)):
                m.d.sync += star.eq(0)

        def send_stars():
            m.d.comb += self.i.ready.eq(1)
            send(self.left, Kind.STAR)
            send(self.right, Kind.STAR)
            m.d.sync += [star.eq(1) for star in away]
            m.next = "STAR"

        is_tuple = self.i.valid & ~self.i.p.star
        drops = Signal()
        m.d.sync += drops.eq(0)
        with m.FSM():
            with m.State("ADMIT"):
                with m.If(can & is_tuple):
                    m.d.comb += self.i.ready.eq(1)
                    for side in (0, 1):
                        with m.If(self.i.p.side == side):
                            send(ends[side], Kind.TUPLE)
                            with m.If(full[side]):
                                send(ends[1 - side], Kind.ACK, pushed=1)
                            with m.Else():
                                m.d.sync += [
                                    held[side].eq(held[side] + 1),
                                    full[side].eq(held[side] == last[side]),
                                    empty[side].eq(0),
                                ]
                with m.Elif(can & self.i.valid & self.i.p.flush):
                    send(self.left, Kind.DRAIN)
                    send(self.right, Kind.DRAIN)
                    m.next = "EMPTY"
                with m.Elif(can & self.i.valid):
                    send_stars()
                with m.Elif(is_tuple & blocked & (self.policy == Policy.DROP_NEW)):
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += drops.eq(1)

            with m.State("EMPTY"):
                with m.If(can):
                    for side in (0, 1):
                        with m.If(~empty[side]):
                            send(ends[1 - side], Kind.ACK)
                            m.d.sync += [
                                held[side].eq(held[side] - 1),
                                full[side].eq(0),
                                empty[side].eq(held[side] == 1),
                            ]
                    with m.If(empty[0] & empty[1]):
                        send_stars()

            with m.State("STAR"):
                with m.If(~away[0] & ~away[1]):
                    m.next = "ADMIT"

        waits = Signal()
        m.d.sync += waits.eq(is_tuple & ~self.i.ready)
        with m.If(waits):
            m.d.sync += self.waited.eq(self.waited + 1)
        with m.If(drops):
            m.d.sync += self.dropped.eq(self.dropped + 1)
        return m
