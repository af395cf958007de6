"""RTLIL of a design in which identical instances share one module.

Amaranth writes one module per instance, and lets constants and aliases of the surroundings seep
into each, so that no two are alike. Here every submodule is converted on its own, with every
signal that crosses its boundary as a port: what is outside cannot change what is inside, and
equal submodules come out as equal text.
"""

import hashlib
import re

from amaranth.back import rtlil
from amaranth.hdl import Fragment, Instance, _ir, _mem

__all__ = ["shared_rtlil"]

PLACEHOLDER = "eddyline:module"


def shared_rtlil(elaboratable, *, ports, name="top"):
    """Convert a design to RTLIL with as few modules as it has different ones.

    Instances keep their names. A submodule that drives only some bits of a signal while others
    drive the rest cannot have it as a port and stays a module of its own, as do modules without
    any logic.

    Parameters
    ----------
    elaboratable : elaboratable
        The design, which declares its own clock domains.
    ports : dict of str to (value, direction)
        As ``amaranth.back.rtlil.convert`` takes them.
    name : str
        Name of the top module.

    Returns
    -------
    str
        RTLIL text, modules before those that use them, the top last.
    """
    design = Fragment.get(elaboratable, None).prepare(ports, hierarchy=(name,))
    modules = {}
    top = design.fragment
    _share_children(top, design, modules)
    text = rtlil.convert_fragment(
        _ir.Design(top, design.ports, hierarchy=(name,)), name=name, emit_src=False
    )[0]
    return "".join(modules.values()) + text


def _share_children(fragment, design, modules):
    """Replace what can be shared below ``fragment`` by instances of entries in ``modules``."""
    used = design.fragments[fragment].used_signals
    driven = {child: _driven(child) for child, _, _ in fragment.subfragments}
    own = _driven_by_statements(fragment)
    children = []
    for child, child_name, src_loc in fragment.subfragments:
        if type(child) is Fragment:
            _share_children(child, design, modules)
            others = own.union(*(driven[other] for other in driven if other is not child))
            crossing = [s for s in design.fragments[child].used_signals if s in used and len(s)]
            if not any(id(s) in driven[child] and id(s) in others for s in crossing):
                outputs = {id(s) for s in crossing if id(s) in driven[child]}
                name = design.fragments[child].name[-1]
                child = _share(child, name, crossing, outputs, modules) or child
        children.append((child, child_name, src_loc))
    fragment.subfragments = children


def _share(fragment, name, crossing, outputs, modules):
    """Return an instance of the module for ``fragment``, or nothing if that has no logic."""
    # Equal modules must list equal ports in equal order, but signals are met in an order that
    # depends on the neighbours.
    names = {}
    for signal in sorted(crossing, key=lambda signal: signal.name):
        port = signal.name or "private"
        while port in names:
            port += "_"
        names[port] = signal
    ports = [
        (
            port,
            signal,
            _ir.PortDirection.Output if id(signal) in outputs else _ir.PortDirection.Input,
        )
        for port, signal in names.items()
    ]
    text = rtlil.convert_fragment(
        _ir.Design(fragment, ports, hierarchy=(PLACEHOLDER,)), emit_src=False
    )[0]
    if not text:
        return None
    text = text.replace("attribute \\top 1\n", "")
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    if digest not in modules:
        # The first instance lends its name, without a number at the end, for people to read.
        stem = re.sub(r"\W|[_$]*\d+$", "", name) or "module"
        kind = f"{stem}_{digest}"
        modules[digest] = text.replace(PLACEHOLDER, kind)
    kind = re.search(r"^module \\(\S+)$", modules[digest], re.M)[1]
    connections = [("o" if id(s) in outputs else "i", port, s) for port, s in names.items()]
    return Instance(kind, *connections)


def _driven(fragment):
    """Return the identities of all signals with a driver in ``fragment`` or below."""
    signals = _driven_by_statements(fragment)
    if isinstance(fragment, Instance):
        values = [value for value, kind in fragment.ports.values() if kind == "o"]
    elif isinstance(fragment, _mem.MemoryInstance):
        values = [port._data for port in fragment._read_ports]
    else:
        values = []
    for value in values:
        signals.update(map(id, value._lhs_signals()))
    return signals.union(*(_driven(child) for child, _, _ in fragment.subfragments))


def _driven_by_statements(fragment):
    statements = (one for many in fragment.statements.values() for one in many)
    return {id(signal) for statement in statements for signal in statement._lhs_signals()}
