"""Recognize equal pieces of a design before they are converted, which is what takes the time."""

import hashlib

from amaranth.hdl import Fragment, Instance, _ast, _ir, _mem

__all__ = ["fingerprint"]


class _Unknown(Exception):
    """Something that this module cannot compare, such as a message to print."""


def fingerprint(fragment, ports):
    """Return a text that equals another fragment's only if both give the same module.

    Signals count by name, shape, initial value and the place where they first occur.

    Parameters
    ----------
    fragment : Fragment
        With resolved clock domains; its submodules are instances and memories.
    ports : list of (name, Signal, direction)
        In the order in which they will be written.

    Returns
    -------
    str or None
        None if the fragment holds something that cannot be compared.
    """
    walk = _Walk()
    try:
        walk.fragment(fragment)
        for name, signal, direction in ports:
            walk.add(name, walk.number(signal), direction.value)
    except _Unknown:
        return None
    return walk.hash.hexdigest()


class _Walk:
    def __init__(self):
        self.hash = hashlib.sha256()
        self.numbers = {}

    def add(self, *facts):
        self.hash.update(repr(facts).encode())

    def number(self, signal):
        """Return a signal's number, after adding what it is if this is its first occurrence."""
        known = self.numbers.get(id(signal))
        if known is None:
            known = self.numbers[id(signal)] = len(self.numbers)
            shape, attributes = signal.shape(), sorted(signal.attrs.items())
            self.add(signal.name, shape.width, shape.signed, signal.init, signal.reset_less)
            self.add(attributes)
        return known

    def fragment(self, fragment):
        self.add(type(fragment).__name__, sorted(fragment.attrs.items()))
        if isinstance(fragment, Instance):
            self.add(fragment.type, sorted(fragment.parameters.items()))
            for name, (value, kind) in fragment.ports.items():
                self.add(name, kind)
                self.value(value)
        elif isinstance(fragment, _mem.MemoryInstance):
            self.memory(fragment)
        elif type(fragment) is Fragment:
            for domain, statements in fragment.statements.items():
                self.domain(fragment, domain)
                self.statements(statements)
            for child, name, _ in fragment.subfragments:
                self.add(name)
                self.fragment(child)
        elif not isinstance(fragment, _ir.RequirePosedge):
            raise _Unknown
        self.add("end")

    def memory(self, memory):
        data = memory._data
        shape = _ast.Shape.cast(data.shape)
        self.add(shape.width, data.depth, list(data.init._raw), sorted(memory._attrs.items()))
        for port in (*memory._write_ports, *memory._read_ports):
            self.domain(memory, port._domain)
            self.add(getattr(port, "_transparent_for", None))
            for value in (port._addr, port._data, port._en):
                self.value(value)

    def domain(self, fragment, name):
        self.add(name)
        if name != "comb":
            domain = fragment.domains[name]
            self.add(domain.clk_edge, domain.async_reset, self.number(domain.clk))
            self.add(None if domain.rst is None else self.number(domain.rst))

    def statements(self, statements):
        self.add(len(statements))
        for statement in statements:
            if isinstance(statement, _ast.Assign):
                self.value(statement.lhs)
                self.value(statement.rhs)
            elif isinstance(statement, _ast.Switch):
                self.add("switch", len(statement.cases))
                self.value(statement.test)
                for patterns, inner, _ in statement.cases:
                    self.add(patterns)
                    self.statements(inner)
            elif isinstance(statement, _ast.Property) and statement.message is None:
                self.add(statement.kind.value)
                self.value(statement.test)
            else:
                raise _Unknown

    def value(self, value):
        if isinstance(value, _ast.Signal):
            self.add("s", self.number(value))
        elif isinstance(value, _ast.Const):
            shape = value.shape()
            self.add("c", value.value, shape.width, shape.signed)
        elif isinstance(value, _ast.Operator):
            self.add("o", value.operator, len(value.operands))
            for operand in value.operands:
                self.value(operand)
        elif isinstance(value, _ast.Slice):
            self.add("x", value.start, value.stop)
            self.value(value.value)
        elif isinstance(value, _ast.Part):
            self.add("p", value.width, value.stride)
            self.value(value.value)
            self.value(value.offset)
        elif isinstance(value, _ast.Concat):
            self.add("j", len(value.parts))
            for part in value.parts:
                self.value(part)
        elif isinstance(value, _ast.SwitchValue):
            self.add("w", len(value.cases))
            self.value(value.test)
            for patterns, element in value.cases:
                self.add(patterns)
                self.value(element)
        elif isinstance(value, _ast.Initial):
            self.add("initial")
        else:
            raise _Unknown
