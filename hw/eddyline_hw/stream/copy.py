"""A register of one's own."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Copy"]


class Copy(wiring.Component):
    """Hold what many are told, a cycle later, close to one of them.

    Synthesis keeps it whole until the end if its name begins with ``relay_``; or it would merge
    all the copies into one, and its wires would reach everywhere.

    Parameters
    ----------
    shape : shape-like

    Members
    -------
    i : ``In(shape)``
    o : ``Out(shape)``
    """

    def __init__(self, shape):
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(self.i)
        return m
