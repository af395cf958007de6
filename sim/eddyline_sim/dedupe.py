"""RTLIL of a design in which identical instances share one module.

Amaranth writes one module per instance, and lets constants and aliases of the surroundings seep
into each, so that no two are alike. Here every submodule is converted on its own, with every
signal that crosses its boundary as a port: what is outside cannot change what is inside, and
equal submodules come out as equal text.
"""

import hashlib
import re
from collections import Counter

from amaranth.back import rtlil
from amaranth.hdl import Fragment, Instance, _ir, _mem

from eddyline_sim.fingerprint import fingerprint

__all__ = ["common_clocks", "repeated", "shared_rtlil"]

PLACEHOLDER = "eddyline:module"
CELL = re.compile(r"^  cell \\(\S+) ", re.M)
# Characters of all instances of a module together: less than ENOUGH compiles in a few seconds as
# copies, and runs up to half as fast again. Once one module is kept apart, smaller ones pay too.
ENOUGH, LEAST = 2_000_000, 100_000
FEWEST = 4  # instances


def shared_rtlil(elaboratable, *, ports, reserved=(), name="top"):
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
    reserved : iterable of Signal
        Signals whose names no other port of any submodule may have.
    name : str
        Name of the top module.

    Returns
    -------
    str
        RTLIL text, modules before those that use them, the top last.
    """
    design = Fragment.get(elaboratable, None).prepare(ports, hierarchy=(name,))
    modules = _Modules(reserved)
    top = design.fragment
    _share_children(top, design, modules)
    text = rtlil.convert_fragment(
        _ir.Design(top, design.ports, hierarchy=(name,)), name=name, emit_src=False
    )[0]
    return "".join(modules.texts.values()) + text


def common_clocks(verilog, names):
    """Let all modules react to edges in the top module itself.

    Where the ports of shared modules are real signals, their clocks would be too, and the
    simulator would look for an edge in every instance.

    Parameters
    ----------
    verilog : str
        As Yosys writes it; the only instance in module ``top`` holds all others.
    names : iterable of str
        Ports that carry the same signal, wherever they occur.
    """
    name = "|".join(names)
    modules = re.compile(r"^module (\w+)\(.*?^endmodule$", re.M | re.S)
    top = next(match[0] for match in modules.finditer(verilog) if match[1] == "top")
    sources = dict(re.findall(rf"^    \.({name})\((.*?)\),?$", top, re.M))

    def change(module):
        ports = re.findall(rf"^  input ({name});$", module[0], re.M)

        def edges(event):
            return re.sub(
                rf"(?<=edge )({name})\b",
                lambda port: f"top.{sources[port[0]]}" if port[0] in ports else port[0],
                event[0],
            )

        if module[1] == "top":
            return module[0]
        return re.sub(r"^  always @\(.*?edge.*\)", edges, module[0], flags=re.M)

    return modules.sub(change, verilog)


class _Modules:
    """Modules found so far: their texts by digest, their names by digest and by fingerprint."""

    def __init__(self, reserved):
        self.reserved = {signal.name: signal for signal in reserved}
        self.texts = {}
        self.names = {}


def repeated(text):
    """Return the names of modules with so many instances that their code should exist once.

    There are none in a small design: copies are faster.
    """
    bodies = dict(re.findall(r"^module \\(\S+)\n(.*?)^end$", text, re.M | re.S))
    cells = {
        name: Counter(
            cell for cell in re.findall(r"^  cell \\(\S+) ", body, re.M) if cell in bodies
        )
        for name, body in bodies.items()
    }
    sizes, instances = {}, Counter()
    for name in bodies:  # modules come before those that use them
        instances.update(cells[name])
        inner = sum(count * sizes[cell] for cell, count in cells[name].items() if cell in sizes)
        sizes[name] = len(bodies[name]) + inner
    total = {name: n * sizes[name] for name, n in instances.items() if n >= FEWEST}
    if max(total.values(), default=0) < ENOUGH:
        return []
    return [name for name, size in total.items() if size >= LEAST]


def _share_children(fragment, design, modules):
    """Replace what can be shared below ``fragment`` by instances of entries in ``modules``."""
    used = design.fragments[fragment].used_signals
    driven = {child: _driven(child) for child, _, _ in fragment.subfragments}
    drivers = Counter(_driven_by_statements(fragment))
    for signals in driven.values():
        drivers.update(signals)
    children = []
    for child, child_name, src_loc in fragment.subfragments:
        if type(child) is Fragment:
            _share_children(child, design, modules)
            crossing = [s for s in design.fragments[child].used_signals if s in used and len(s)]
            if not any(id(s) in driven[child] and drivers[id(s)] > 1 for s in crossing):
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
        while port in names or modules.reserved.get(port, signal) is not signal:
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
    mark = fingerprint(fragment, ports)
    if mark not in modules.names:
        text = rtlil.convert_fragment(
            _ir.Design(fragment, ports, hierarchy=(PLACEHOLDER,)), emit_src=False
        )[0]
        modules.names[mark] = _add(text.replace("attribute \\top 1\n", ""), name, modules)
    kind = modules.names[mark]
    if mark is None:
        del modules.names[mark]
    if kind is None:
        return None
    connections = [("o" if id(s) in outputs else "i", port, s) for port, s in names.items()]
    return Instance(kind, *connections)


def _add(text, name, modules):
    """Return the name of the module with this text, or nothing if the text is empty."""
    if not text:
        return None
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    if digest not in modules.texts:
        # The first instance lends its name, without a number at the end, for people to read.
        stem = re.sub(r"\W|[_$]*\d+$", "", name) or "module"
        modules.names[digest] = f"{stem}_{digest}"
        modules.texts[digest] = text.replace(PLACEHOLDER, modules.names[digest])
    return modules.names[digest]


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
