"""Fair choice among requests, within the cycle."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["RoundRobinArbiter", "next_owner"]


class RoundRobinArbiter(wiring.Component):
    """Grant one of several requests in the same cycle, starving none.

    A token lies behind the input that used the last grant and passes over idle inputs, so a
    request that stays pending waits while at most ``ways - 1`` others use a grant. Logic depth is
    logarithmic in ``ways`` (Teubner and Mueller, appendix A.4, name the round-robin token passing
    arbiter; the token is a mask here, and passing it is a parallel prefix).

    Parameters
    ----------
    ways : int
        Number of inputs, at least 1.

    Members
    -------
    requests : ``In(ways)``
        Who wants a grant.
    advance : ``In(1)``
        The grant is used in this cycle: its owner goes to the back of the line.
    grant : ``Out(ways)``
        One of the requests, or zero if there is none. Does not depend on ``advance``.
    """

    def __init__(self, ways):
        if ways < 1:
            raise ValueError(f"an arbiter needs at least 1 input, not {ways!r}")
        self.ways = ways
        super().__init__(
            {
                "requests": In(ways),
                "advance": In(1),
                "grant": Out(ways),
            }
        )

        # Inputs ahead of the token: ones above the last one served, zeros up to it. Without a
        # request among them the search starts over at input 0. Here and not in `elaborate`, so
        # that a proof can speak of it.
        self._mask = Signal(ways)

    def elaborate(self, platform):
        m = Module()

        ahead = Signal(self.ways)
        ahead_below = Signal(self.ways)
        all_below = Signal(self.ways)
        below = Signal(self.ways)
        wrapped = Signal()

        m.d.comb += [
            ahead.eq(self.requests & self._mask),
            wrapped.eq(ahead == 0),
            ahead_below.eq(any_below(ahead)),
            all_below.eq(any_below(self.requests)),
        ]
        with m.If(wrapped):
            m.d.comb += [below.eq(all_below), self.grant.eq(self.requests & ~all_below)]
        with m.Else():
            m.d.comb += [below.eq(ahead_below), self.grant.eq(ahead & ~ahead_below)]

        with m.If(self.advance & (self.requests != 0)):
            m.d.sync += self._mask.eq(below)

        return m


def any_below(bits):
    """Return for each position whether a lower one is set: a Kogge-Stone prefix of ORs."""
    width = len(bits)
    reach = Cat(0, bits)[:width]
    distance = 1
    while distance < width:
        reach = reach | (reach << distance)[:width]
        distance *= 2
    return reach


def next_owner(owner, requests, codes):
    """Return the code of who has the turn after ``owner``: the next request around the circle.

    Without another request the turn stays where it is, whether or not it is used. For a few ways
    this is shallower than the arbiter.
    """
    ways = len(requests)
    successors = []
    for way in range(ways):
        successor = codes[way]
        for steps in reversed(range(1, ways)):  # the nearest comes last, and has its way
            other = (way + steps) % ways
            successor = Mux(requests[other], codes[other], successor)
        successors.append(successor)
    return Array(successors)[owner]
