"""The whole handshake join: a chain of cores and the network that merges their results."""

from amaranth import DomainRenamer, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.asynchronous import AsyncChain
from eddyline_hw.handshake.lockstep import LockstepChain
from eddyline_hw.layouts import message_layout, result_layout
from eddyline_hw.stream.buffer import Buffer
from eddyline_hw.stream.crossing import AsyncFifo
from eddyline_hw.stream.merge import MergeTree

__all__ = ["CHAINS", "HandshakeJoin"]

CHAINS = {"lockstep": LockstepChain, "asynchronous": AsyncChain}
# More than enough for the pointers' way between the clocks; look-up-table RAM comes in sixteens.
CROSSING_DEPTH = 16


class HandshakeJoin(wiring.Component):
    """Join two streams over sliding windows (Teubner and Mueller).

    The cores of the chain work in ``sync``. Their results cross into the domain ``merge``, where a
    tree brings them to the output, at most one per cycle of that clock (appendix A.4).

    Parameters
    ----------
    plan : Plan
        Gives predicate and layouts; windows are a run-time setting.
    chain : str
        ``lockstep`` or ``asynchronous``.
    fan_in : int
        Inputs of a merger, 2 to 8.
    cores, window_r, window_s, lanes, stages, window, carried
        See :class:`eddyline_hw.handshake.lockstep.LockstepChain`.

    Members
    -------
    i : ``In(stream.Signature(message_layout(plan)))``
        Messages in order of arrival, in ``sync``.
    o : ``Out(stream.Signature(result_layout(plan, carried)))``
        Results, in ``merge``. Pairs come in any order; a star comes after all pairs that had met
        when it went in.
    others
        Settings and counters of the chain.
    """

    output_domain = "merge"

    def __init__(self, plan, *, chain="lockstep", fan_in=4, carried=(), **parameters):
        if chain not in CHAINS:
            raise ValueError(f"no chain {chain!r} (known: {', '.join(CHAINS)})")
        self.plan = plan
        self.carried = tuple(carried)
        self.chain = CHAINS[chain](plan, carried=carried, **parameters)
        self.tree = MergeTree(result_layout(plan, carried), inputs=self.chain.cores, fan_in=fan_in)
        own = {
            "i": In(stream.Signature(message_layout(plan))),
            "o": Out(stream.Signature(result_layout(plan, carried))),
        }
        self._passed = {
            name: member for name, member in self.chain.signature.members.items() if name not in own
        }
        super().__init__(own | self._passed)

    def settings(self, window_r, window_s, **options):
        """Return the values of all settings, see the chain's method."""
        return self.chain.settings(window_r, window_s, **options)

    def elaborate(self, platform):
        m = Module()

        result = result_layout(self.plan, self.carried)
        m.submodules.chain = chain = self.chain
        m.submodules.tree = DomainRenamer("merge")(self.tree)
        wiring.connect(m, wiring.flipped(self.i), chain.i)
        for number, (core, branch) in enumerate(zip(chain.o, self.tree.i, strict=True)):
            m.submodules[f"crossing{number}"] = crossing = AsyncFifo(
                result, depth=CROSSING_DEPTH, o_domain="merge"
            )
            behind = Buffer(result)  # the tree's `ready` ends here
            m.submodules[f"behind{number}"] = DomainRenamer("merge")(behind)
            wiring.connect(m, core, crossing.i)
            wiring.connect(m, crossing.o, behind.i)
            wiring.connect(m, behind.o, branch)
        wiring.connect(m, self.tree.o, wiring.flipped(self.o))

        for name, member in self._passed.items():
            own, inner = getattr(self, name), getattr(chain, name)
            m.d.comb += inner.eq(own) if member.flow == In else own.eq(inner)
        return m
