"""What surrounds an operator in the simulator: clocks, resets, and a register at every input."""

from amaranth.hdl import ClockDomain, Const, Elaboratable, Module, Shape, Signal, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import data, stream, wiring

from eddyline_sim.dedupe import shared_rtlil

__all__ = ["Shell"]

CLOCKS = ("sync", "merge")


class Shell(Elaboratable):
    """Make one module with plain ports out of an operator.

    Every input passes a register, so that nothing but clocks reaches the operator from outside
    between two edges: the simulator then computes each piece of logic once per cycle, and has
    one copy of its code. Reset does not clear these registers.

    Ports are ``clk``, ``merge_clk``, ``next_rst``, ``next_merge_rst``,
    ``{i,o}_{valid,ready,payload}``, ``set_<n>`` for the n-th setting and ``get_<n>`` for the n-th
    other output. Inside, ``rst`` and ``merge_rst`` are the resets of the two domains.

    Parameters
    ----------
    component : wiring.Component
        With streams ``i`` (of domain ``sync``) and ``o``; all other members are values of up to
        64 bits. Names of nested members are joined with two underscores.
    output_domain : str
        Clock domain of ``o``, ``sync`` or ``merge``.

    Members
    -------
    settings, counters : dict of str to Value
        Inputs and outputs that do not belong to a stream.
    i_star, o_star : int or None
        Position of the field ``star`` in the payload.
    """

    def __init__(self, component, *, output_domain="sync"):
        if output_domain not in CLOCKS:
            raise ValueError(f"output domain is {' or '.join(CLOCKS)}, not {output_domain!r}")
        self.component = component
        self.output_domain = output_domain
        self.settings = {}
        self.counters = {}
        members = component.signature.members
        for name, flow in (("i", wiring.In), ("o", wiring.Out)):
            if name not in members or not _is_stream(members[name]) or members[name].flow != flow:
                raise ValueError(f"{component!r} has no {flow.name.lower()}put stream {name!r}")
        if members["i"].signature.always_valid:
            raise ValueError("stream 'i' cannot be always valid: the simulator has gaps")
        for path, member, value in component.signature.flatten(component):
            if path[0] not in ("i", "o"):
                name, value = "__".join(map(str, path)), Value.cast(value)
                if not 1 <= len(value) <= 64:
                    raise ValueError(f"member {name!r} has {len(value)} bits, not 1 to 64")
                table = self.settings if member.flow == wiring.In else self.counters
                table[name] = value
        self.i_star = _star(members["i"].signature.members["payload"].shape)
        self.o_star = _star(members["o"].signature.members["payload"].shape)
        self.i_width = len(Value.cast(component.i.payload))
        self.o_width = len(Value.cast(component.o.payload))
        if not self.i_width or not self.o_width:
            raise ValueError("streams 'i' and 'o' must have a payload")
        self._ports = {}

    def rtlil(self, name):
        """Return RTLIL, the operator as an instance called ``name``, and if it uses ``merge``."""
        self._name = name
        self._domains = {name: ClockDomain(name) for name in CLOCKS}
        for domain in self._domains.values():
            self._ports[domain.clk.name] = (domain.clk, PortDirection.Input)
        i, o = self.component.i, self.component.o
        self._inputs = [
            ("i_valid", i.valid, "sync"),
            ("i_payload", i.payload, "sync"),
            ("o_ready", o.ready, self.output_domain),
            *((f"set_{n}", value, "sync") for n, value in enumerate(self.settings.values())),
            *(
                (f"next_{domain.rst.name}", domain.rst, name)
                for name, domain in self._domains.items()
            ),
        ]
        self._outputs = [
            ("i_ready", i.ready),
            ("o_valid", o.valid),
            ("o_payload", o.payload),
            *((f"get_{n}", value) for n, value in enumerate(self.counters.values())),
        ]
        self._inputs = [(n, Value.cast(value), domain) for n, value, domain in self._inputs]
        self._outputs = [(n, Value.cast(value)) for n, value in self._outputs]
        for port, value, _ in self._inputs:
            self._ports[port] = (Signal(len(value), name=port), PortDirection.Input)
        for port, value in self._outputs:
            self._ports[port] = (Signal(len(value), name=port), PortDirection.Output)
        clocking = [one for domain in self._domains.values() for one in (domain.clk, domain.rst)]
        text = shared_rtlil(self, ports=self._ports, reserved=clocking)
        return text, r"\merge_clk" in text[: text.index("attribute \\top 1")]

    def elaborate(self, platform):
        m = Module()
        m.domains += self._domains.values()
        m.submodules[self._name] = self.component
        for port, value, domain in self._inputs:
            if isinstance(value, Const):  # the ready of a stream that promises to be
                continue
            held = Signal(len(value), init=_init(value), name=f"{port}_held", reset_less=True)
            m.d[domain] += held.eq(self._ports[port][0])
            m.d.comb += value.eq(held)
        for port, value in self._outputs:
            m.d.comb += self._ports[port][0].eq(value)
        return m


def _is_stream(member):
    return member.is_signature and isinstance(member.signature, stream.Signature)


def _star(shape):
    """Return the position of a field ``star`` of one bit, or None."""
    if not isinstance(shape, data.Layout):
        return None
    for name, field in shape:
        if name == "star" and Shape.cast(field.shape).width == 1:
            return field.offset
    return None


def _init(value):
    return value.init if isinstance(value, Signal) else 0
