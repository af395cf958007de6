"""When tuples pass the stages of a SplitJoin operator (figure 14 of the paper)."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["StageClock"]

PLACES = ("entered", "begun", "ended", "compared", "left")


class StageClock(wiring.Component):
    """Wrap an operator; add up the times at which tuples pass certain places.

    For means, sums are enough: if all tuples have passed both places, the difference of the sums
    divided by their number is the mean time from one to the other, exactly. No tuple needs a tag.

    Parameters
    ----------
    operator : SplitJoin
        With a combiner.

    Members
    -------
    entered, begun, ended, compared, left : ``Out(32)``
        How often it happened: a tuple was taken at ``i``; a core turned to it; a core asked for the
        last row of its partners; a pair came to the comparators; a final star was taken at ``o``.
        With ``k`` cores the second and third happen ``k`` times for a tuple.
    entered_sum, begun_sum, ended_sum, compared_sum, left_sum : ``Out(64)``
        Sum of the cycles in which it happened.
    others
        Those of the operator.
    """

    output_domain = "sync"

    def __init__(self, operator):
        self.operator = operator
        self._passed = dict(operator.signature.members)
        counts = {name: Out(32) for name in PLACES}
        sums = {f"{name}_sum": Out(64) for name in PLACES}
        super().__init__(self._passed | counts | sums)

    def elaborate(self, platform):
        m = Module()

        m.submodules.operator = operator = self.operator
        for name, member in self._passed.items():
            own, inner = getattr(self, name), getattr(operator, name)
            if name == "i":
                wiring.connect(m, wiring.flipped(own), inner)
            elif name == "o":
                wiring.connect(m, inner, wiring.flipped(own))
            else:
                m.d.comb += inner.eq(own) if member.flow == In else own.eq(inner)

        now = Signal(48)
        m.d.sync += now.eq(now + 1)

        def add_up(name, events):
            """Count what happens in a cycle, in the same number of cycles for every place."""
            count, total = getattr(self, name), getattr(self, f"{name}_sum")
            happened = Signal(len(events), name=f"{name}_now")
            number = Signal(range(len(events) + 1), name=f"{name}_number")
            for bit, event in zip(happened, events, strict=True):
                m.d.sync += bit.eq(event)
            m.d.sync += [
                number.eq(sum(happened[index] for index in range(len(events)))),
                count.eq(count + number),
                total.eq(total + now * number),
            ]

        i, o = self.i, self.o
        led = [core.sequencer for core in operator.core]
        add_up("entered", [i.valid & i.ready & ~i.p.star])
        add_up("left", [o.valid & o.ready & o.p.star & o.p.final])
        add_up("begun", [one.step & one.first & one.packet.tuple for one in led])
        add_up("ended", [one.step & one.ends & one.packet.tuple for one in led])
        add_up(
            "compared",
            [
                core.matcher.probe.valid & partner.valid
                for core in operator.core
                for partner in core.matcher.partners
            ],
        )
        return m
