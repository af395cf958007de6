"""Notice a tuple that had to leave too early."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.layouts import entry_layout

__all__ = ["OverflowGuard"]


class OverflowGuard(wiring.Component):
    """Compare a tuple that leaves with the one that pushes it out.

    A window of time is held in a limited number of slots. If the tuple that leaves is still young
    when the new one comes, a later tuple could have met it: the results are no longer complete.

    Parameters
    ----------
    plan : Plan
        With the words of time that :func:`eddyline.plan.in_rows` adds.
    side : str
        Which tuples are watched.

    Members
    -------
    leaves : ``In(1)``
        ``old`` leaves in this cycle because ``new`` comes.
    keep : ``In(1)``
        No tuple may leave at all.
    overflow : ``Out(1)``
        It has happened; stays set until reset.
    """

    def __init__(self, plan, *, side):
        self.side = side
        self.timed = any(word.name == "until" for word in plan.layout(side).words)
        entry = entry_layout(plan)
        super().__init__(
            {
                "leaves": In(1),
                "keep": In(1),
                "old": In(entry),
                "new": In(entry),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()

        left = Signal()
        m.d.sync += left.eq(self.leaves)
        with m.If(left & self.keep):
            m.d.sync += self.overflow.eq(1)
        if self.timed:
            until, when, young = Signal(64), Signal(64), Signal()
            m.d.sync += [
                until.eq(self.old[self.side].words.until),
                when.eq(self.new[self.side].words.when),
                young.eq(left & (when <= until)),
            ]
            with m.If(young):
                m.d.sync += self.overflow.eq(1)
        return m
