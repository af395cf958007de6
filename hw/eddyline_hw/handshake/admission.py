"""Admission control of the lock-step chain: when a tuple may enter, and what if it may not."""

from amaranth import Module, Mux, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.lockstep_core import step_layout
from eddyline_hw.layouts import message_layout

__all__ = ["Admission", "Policy"]


class Policy(enum.Enum, shape=2):
    """What happens when a core's result queue is nearly full (appendix A.3)."""

    WAIT = 0
    DROP_NEW = 1
    DROP_RESULTS = 2


class Admission(wiring.Component):
    """Turn messages into steps, one at a time and no faster than the cores can compare.

    A tuple becomes a step that moves its side. The next step follows ``pace`` cycles later. Where
    a window is smaller than the number of cores, bubbles fill the slots that it leaves: after every
    ``period`` tuples of a side come ``bubbles`` steps without a tuple, so that all slots of the
    side together hold exactly ``period`` tuples at any time.

    A flush moves R by bubbles until every R tuple has passed every S tuple, and then empties the
    windows. Punctuations always wait for room, whatever the policy.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    slots : int
        Most slots of a side in the whole chain.
    pace : int
        Most cycles that a step may take.

    Members
    -------
    i : ``In(stream.Signature(message_layout(plan)))``
        Messages.
    step : ``Out(step_layout(plan))``
        What all cores do in this cycle.
    throttle : ``In(1)``
        Some core has little room left for results.
    policy : ``In(Policy)``
        What to do then: wait, drop the tuples that arrive, or let the cores drop results.
    pace_r, pace_s : In
        Cycles that a step of this side takes, less one.
    period_r, period_s, bubbles_r, bubbles_s : In
        Pattern of bubbles; ``period`` is less one.
    slots_r : In
        Bubbles that carry the last R tuple out of the chain, less one.
    dropped : ``Out(32)``
        Tuples dropped.
    throttled, paced : ``Out(32)``
        Cycles in which a tuple waited for room, and for its turn.
    """

    def __init__(self, plan, *, slots, pace):
        self.plan = plan
        members = {
            "i": In(stream.Signature(message_layout(plan))),
            "step": Out(step_layout(plan)),
            "throttle": In(1),
            "policy": In(Policy),
            "slots_r": In(range(max(slots, 2))),
            "dropped": Out(32),
            "throttled": Out(32),
            "paced": Out(32),
        }
        for side in "rs":
            members |= {
                f"pace_{side}": In(range(max(pace, 2))),
                f"period_{side}": In(range(max(slots, 2))),
                f"bubbles_{side}": In(range(max(slots, 2))),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()

        pace = Signal.like(self.pace_r)
        free = Signal(init=1)  # the last step has had its cycles
        room = Signal()
        m.d.comb += room.eq(~self.throttle | (self.policy == Policy.DROP_RESULTS))
        owed = {side: Signal.like(getattr(self, f"bubbles_{side}")) for side in "rs"}
        entered = {side: Signal.like(getattr(self, f"period_{side}")) for side in "rs"}
        # Flags say ahead of time what a comparison would find: `i.ready` must not wait for one.
        owes = {side: Signal(name=f"owes_{side}") for side in "rs"}
        indebted = Signal()
        m.d.comb += indebted.eq(owes["r"] | owes["s"])

        quick = {side: Signal(name=f"quick_{side}") for side in "rs"}  # a step takes one cycle
        some = {side: Signal(name=f"some_{side}") for side in "rs"}  # there are bubbles at all
        for side in "rs":
            m.d.sync += [
                quick[side].eq(getattr(self, f"pace_{side}") == 0),
                some[side].eq(getattr(self, f"bubbles_{side}") != 0),
            ]

        step = self.step
        with m.If(~free):
            m.d.sync += [pace.eq(pace - 1), free.eq(pace == 1)]
        m.d.sync += [step.move.eq(0), step.star.eq(0), step.clear.eq(0)]
        m.d.sync += step.entry.eq(self.i.p.entry)

        def move(side, valid):
            """Make a step of this side; the next one follows when its cycles are over."""
            m.d.sync += [
                step.move.eq(1),
                step.side.eq(side),
                step.valid.eq(valid),
                pace.eq(Mux(side, self.pace_s, self.pace_r)),
                free.eq(Mux(side, quick["s"], quick["r"])),
            ]

        remaining = Signal.like(self.slots_r)
        tuple_here = self.i.valid & ~self.i.p.star
        with m.FSM():
            with m.State("ADMIT"):
                with m.If(indebted):
                    with m.If(free & room):
                        move(~owes["r"], 0)
                        with m.If(owes["r"]):
                            m.d.sync += [owed["r"].eq(owed["r"] - 1), owes["r"].eq(owed["r"] != 1)]
                        with m.Else():
                            m.d.sync += [owed["s"].eq(owed["s"] - 1), owes["s"].eq(owed["s"] != 1)]
                with m.Elif(self.i.valid & self.i.p.star):
                    with m.If(free & ~self.throttle & self.i.p.flush):
                        m.d.sync += remaining.eq(self.slots_r)
                        m.next = "FLUSH"
                    with m.Elif(free & ~self.throttle):
                        m.d.comb += self.i.ready.eq(1)
                        m.d.sync += step.star.eq(1)
                with m.Elif(free & room):
                    m.d.comb += self.i.ready.eq(1)
                    with m.If(self.i.valid):
                        move(self.i.p.side, 1)
                        self._count_tuple(m, owed, owes, some, entered)
                with m.Elif(self.throttle & (self.policy == Policy.DROP_NEW)):
                    m.d.comb += self.i.ready.eq(1)
                    with m.If(self.i.valid):
                        m.d.sync += self.dropped.eq(self.dropped + 1)

            with m.State("FLUSH"):
                with m.If(free & ~self.throttle):
                    move(0, 0)
                    m.d.sync += remaining.eq(remaining - 1)
                    with m.If(remaining == 0):
                        m.next = "CLEAR"

            with m.State("CLEAR"):
                with m.If(free & ~self.throttle):
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += [step.star.eq(1), step.clear.eq(1), pace.eq(1), free.eq(0)]
                    for pattern in (owed, owes, entered):
                        m.d.sync += [signal.eq(0) for signal in pattern.values()]
                    m.next = "ADMIT"

        with m.If(tuple_here & ~self.i.ready & free & self.throttle):
            m.d.sync += self.throttled.eq(self.throttled + 1)
        with m.If(tuple_here & ~self.i.ready & ~free):
            m.d.sync += self.paced.eq(self.paced + 1)
        return m

    def _count_tuple(self, m, owed, owes, some, entered):
        """Note a tuple; a full period of them is followed by its bubbles."""
        for number, side in enumerate("rs"):
            with m.If(self.i.p.side == number):
                m.d.sync += entered[side].eq(entered[side] + 1)
                with m.If(entered[side] == getattr(self, f"period_{side}")):
                    m.d.sync += entered[side].eq(0)
                    m.d.sync += owed[side].eq(getattr(self, f"bubbles_{side}"))
                    m.d.sync += owes[side].eq(some[side])
