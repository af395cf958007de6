"""Any component on a handful of pins, so that it can be placed and its clock measured."""

from itertools import pairwise

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FewPins"]


class FewPins(wiring.Component):
    """Feed a component from two pins and fold all it says into one.

    Every input bit of the component comes from a flip-flop of its own and every output bit goes
    to one, so that each path inside it counts, and none through a pin. Nothing of the component
    can be optimized away: no two inputs carry the same sequence, nor one that is the other some
    cycles later, and no output is hidden by another. Only neighbours in two chains are joined, by
    one lookup table at most: the component is always slower than what is around it.

    Domains have no reset, as on Amaranth's ECP5 boards, where the chip's own reset net restores
    every flip-flop.

    Parameters
    ----------
    component : :class:`wiring.Component`
        What is to be placed. Its inputs and outputs may be nested, arrays, streams or plain.
    domains : dict of str to str, optional
        Clock domains of members that are not in ``sync``, by the member's name.

    Attributes
    ----------
    flip_flops : int
        How many the wrapper adds.

    Members
    -------
    clk : ``In(1)``
        Clock of ``sync``; each further domain ``<d>`` has a ``<d>_clk``.
    stimulus : ``In(2)``
        Shifted into the component's inputs; each further domain has a ``<d>_stimulus``.
    folded : ``Out(1)``
        Depends on every output of the component; each further domain has a ``<d>_folded``.
    """

    def __init__(self, component: wiring.Component, *, domains=None):
        self.component = component
        domains = dict(domains or {})
        if unknown := sorted(domains.keys() - component.signature.members.keys()):
            raise ValueError(f"{type(component).__name__} has no member {unknown[0]!r}")
        self._inputs = {domain: {} for domain in ("sync", *domains.values())}
        self._outputs = {domain: {} for domain in self._inputs}
        for path, member, value in component.signature.flatten(component):
            bits = Value.cast(value)
            if isinstance(bits, Const):
                continue  # a stream that is always ready or always valid
            ports = self._inputs if member.flow == In else self._outputs
            ports[domains.get(path[0], "sync")]["__".join(map(str, path))] = bits
        self.flip_flops = 0
        members = {}
        for domain in self._inputs:
            members[self._name(domain, "clk")] = In(1)
            if self._inputs[domain]:
                members[self._name(domain, "stimulus")] = In(2)
                self.flip_flops += 2 + len(Cat(self._inputs[domain].values()))
            if self._outputs[domain]:
                members[self._name(domain, "folded")] = Out(1)
                self.flip_flops += 2 * len(Cat(self._outputs[domain].values()))
        super().__init__(members)

    @staticmethod
    def _name(domain, role):
        return role if domain == "sync" else f"{domain}_{role}"

    def _pin(self, domain, role):
        return getattr(self, self._name(domain, role))

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = self.component
        for domain in self._inputs:
            m.domains += ClockDomain(domain, reset_less=True)
            m.d.comb += ClockSignal(domain).eq(self._pin(domain, "clk"))
            if self._inputs[domain]:
                self._shift_in(m, domain)
            if self._outputs[domain]:
                self._fold(m, domain)
        return m

    def _shift_in(self, m, domain):
        chain = Signal(2, name=self._name(domain, "stimulus_seen"))
        m.d[domain] += chain.eq(self._pin(domain, "stimulus"))
        for name, bits in self._inputs[domain].items():
            held = Signal(len(bits), name=f"to_{name}")
            m.d.comb += bits.eq(held)
            chain = Cat(chain, held)
        # The sum of two neighbours, not a copy of one: a copy is what a register at the
        # component's input makes as well, and synthesis would use one for both.
        for bit, (older, newer) in enumerate(pairwise(chain[:-1])):
            m.d[domain] += chain[bit + 2].eq(older ^ newer)

    def _fold(self, m, domain):
        chain = Const(0)
        for name, bits in self._outputs[domain].items():
            seen = Signal(len(bits), name=f"from_{name}")
            folded = Signal(len(bits), name=f"folded_{name}")
            # A chain and not a tree: equal outputs would cancel out in a tree.
            m.d[domain] += [seen.eq(bits), folded.eq(seen ^ Cat(chain[-1], folded[:-1]))]
            chain = folded
        m.d.comb += self._pin(domain, "folded").eq(chain[-1])
