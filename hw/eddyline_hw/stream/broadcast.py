"""Distribution of one stream to many consumers."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.buffer import Buffer
from eddyline_hw.stream.tree import height, split

__all__ = ["BroadcastTree", "Fork"]


class Fork(wiring.Component):
    """Offer each payload to several consumers, each of which takes it when it likes.

    Purely an eager fork: no latency, one payload per cycle when all consumers are ready. An
    output's ``valid`` is that of the input until the consumer has taken its copy, and never
    depends on any ``ready`` of the same cycle.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    ways : int
        Number of outputs, at least 1.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepted in the cycle in which the last output takes its copy.
    o : ``Out(stream.Signature(shape)).array(ways)``
        The copies. An offer cannot change in a stall because the input's cannot.
    """

    def __init__(self, shape, *, ways):
        if ways < 1:
            raise ValueError(f"a fork needs at least 1 output, not {ways!r}")
        self.shape = shape
        self.ways = ways
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)).array(ways),
            }
        )

        # Outputs that have their copy of the payload on offer. Here and not in `elaborate`, so
        # that a proof can speak of it.
        self._served = Signal(ways)

    def elaborate(self, platform):
        m = Module()

        taken = Signal(self.ways)

        m.d.comb += [
            taken.eq(self._served | Cat(port.ready for port in self.o)),
            self.i.ready.eq(taken.all()),
        ]
        for port, done in zip(self.o, self._served, strict=True):
            m.d.comb += [
                port.valid.eq(self.i.valid & ~done),
                port.payload.eq(self.i.payload),
            ]

        with m.If(self.i.valid):
            m.d.sync += self._served.eq(taken)
            with m.If(self.i.ready):
                m.d.sync += self._served.eq(0)

        return m


class BroadcastTree(wiring.Component):
    """Bring every payload to every output exactly once.

    A tree with a ``Buffer`` at the end of each branch: no signal reaches further than one level,
    in either direction. All outputs are at the same depth. One payload enters per cycle when all
    outputs are ready; an output that stalls holds up the others only once the buffers on its way
    are full.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    outputs : int
        Number of outputs, at least 1.
    fan_out : int
        Largest number of branches of a node, at least 2.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Payloads to distribute.
    o : ``Out(stream.Signature(shape)).array(outputs)``
        The same payloads in the same order, on each output, from flip-flops.

    Attributes
    ----------
    latency : int
        Cycles from ``i`` to each output of an idle tree: ``ceil(log(outputs, fan_out))``, at
        least 1.
    """

    def __init__(self, shape, *, outputs, fan_out=4):
        if outputs < 1:
            raise ValueError(f"a broadcast tree needs at least 1 output, not {outputs!r}")
        if fan_out < 2:
            raise ValueError(f"fan-out of a broadcast tree must be at least 2, not {fan_out!r}")
        self.shape = shape
        self.outputs = outputs
        self.fan_out = fan_out
        self.latency = max(1, height(outputs, fan_out))
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)).array(outputs),
            }
        )

    def elaborate(self, platform):
        m = Module()

        def spread(source, ports, level, path):
            """Bring ``source`` to all of ``ports`` through ``level`` stages."""
            if level == 0:
                wiring.connect(m, source, ports[0])
                return
            branches = split(ports, span=self.fan_out ** (level - 1))
            m.submodules[f"fork{path}"] = fork = Fork(self.shape, ways=len(branches))
            wiring.connect(m, source, fork.i)
            for index, (copy, branch) in enumerate(zip(fork.o, branches, strict=True)):
                m.submodules[f"stage{path}_{index}"] = stage = Buffer(self.shape)
                wiring.connect(m, copy, stage.i)
                spread(stage.o, branch, level - 1, f"{path}_{index}")

        leaves = [wiring.flipped(port) for port in self.o]
        spread(wiring.flipped(self.i), leaves, self.latency, "")

        return m
