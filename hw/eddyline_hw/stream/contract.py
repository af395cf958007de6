"""The rule every stream obeys, as a component."""

from amaranth import Assert, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ContractChecker"]


class ContractChecker(wiring.Component):
    """Watch a stream and tell whether an offer was withdrawn or edited before it was taken.

    Changes nothing in what it watches.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    formal : bool
        Also assert the rule, for a proof.

    Members
    -------
    valid, ready, payload : ``In``
        The stream.
    broken : ``Out(1)``
        The rule is broken in this cycle.
    violated : ``Out(1)``
        The rule was broken in an earlier cycle; stays set until reset.
    """

    def __init__(self, shape, *, formal=False):
        self.shape = shape
        self.formal = formal
        super().__init__(
            {
                "valid": In(1),
                "ready": In(1),
                "payload": In(shape),
                "broken": Out(1),
                "violated": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()

        stalled = Signal()
        offer = Signal.like(Value.cast(self.payload), reset_less=True)
        edited = Value.cast(self.payload) != offer

        m.d.comb += self.broken.eq(stalled & (~self.valid | edited))
        m.d.sync += [stalled.eq(self.valid & ~self.ready), offer.eq(self.payload)]
        with m.If(self.broken):
            m.d.sync += self.violated.eq(1)
        if self.formal:
            m.d.comb += Assert(~self.broken)

        return m
