"""Results of either side on their own way."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import item_layout
from eddyline_hw.stream.broadcast import Fork
from eddyline_hw.stream.buffer import Buffer

__all__ = ["Switch"]


class Switch(wiring.Component):
    """Send each item the way of its side, or both ways.

    One item per cycle; latency is one cycle.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    i : ``In(stream.Signature(item_layout(plan, carried)))``
    o : ``Out(stream.Signature(item_layout(plan, carried))).array(2)``
        Items of R arrivals, of S arrivals, from flip-flops.
    """

    def __init__(self, plan, *, carried=()):
        item = stream.Signature(item_layout(plan, carried))
        super().__init__({"i": In(item), "o": Out(item).array(2)})

    def elaborate(self, platform):
        m = Module()

        shape = self.i.p.shape()
        m.submodules.fork = fork = Fork(shape, ways=2)
        wiring.connect(m, wiring.flipped(self.i), fork.i)
        for side, (copy, port) in enumerate(zip(fork.o, self.o, strict=True)):
            m.submodules[f"buffer{side}"] = buffer = Buffer(shape)
            # A copy that is not for this side is taken and forgotten.
            wanted = copy.p.both | (copy.p.side == side)
            m.d.comb += [
                buffer.i.payload.eq(copy.payload),
                buffer.i.valid.eq(copy.valid & wanted),
                copy.ready.eq(buffer.i.ready | ~wanted),
            ]
            wiring.connect(m, buffer.o, wiring.flipped(port))
        return m
