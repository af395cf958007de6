"""Fair merging of streams, with punctuation where the payload has it."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.arbiter import RoundRobinArbiter
from eddyline_hw.stream.buffer import Buffer
from eddyline_hw.stream.fifo import Fifo
from eddyline_hw.stream.tree import height, split

__all__ = ["MergeTree", "Merger"]


class Merger(wiring.Component):
    """Merge several streams into one without starving any of them.

    An input that has just been served goes to the back of the line, so a pending payload waits
    for at most ``ways - 1`` others. Throughput is one payload per cycle; latency is one cycle.

    If the payload has a field ``star``, stars are barriers: an input whose next payload is a star
    is not served until every input shows one; then all are taken in one cycle and leave as one
    star. No payload crosses its star.

    Parameters
    ----------
    shape : shape-like
        Payload shape, identical on all ports.
    ways : int
        Number of inputs, at least 1.

    Members
    -------
    i : ``In(stream.Signature(shape)).array(ways)``
        Inputs. At most one is accepted per cycle, or all of them if all show a star. ``ready``
        depends on ``valid`` of all inputs and on ``o.ready``.
    o : ``Out(stream.Signature(shape))``
        Merged output, from flip-flops. Order is kept within an input, not across inputs. A star
        has the payload of input 0.
    """

    def __init__(self, shape, *, ways):
        if ways < 1:
            raise ValueError(f"a merger needs at least 1 input, not {ways!r}")
        self.shape = shape
        self.ways = ways
        self.punctuated = isinstance(shape, data.StructLayout) and "star" in dict(shape)
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(ways),
                "o": Out(stream.Signature(shape)),
            }
        )
        self._payload = Signal(shape, reset_less=True)

    def elaborate(self, platform):
        m = Module()

        m.submodules.arbiter = arbiter = RoundRobinArbiter(self.ways)

        free = Signal()
        stars = Signal(self.ways)
        barrier = Signal()  # every input shows a star

        if self.punctuated:
            m.d.comb += [
                stars.eq(Cat(port.valid & port.payload.star for port in self.i)),
                barrier.eq(stars.all()),
            ]
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            arbiter.requests.eq(Cat(port.valid for port in self.i) & ~stars),
            arbiter.advance.eq(free),
            self.o.payload.eq(self._payload),
        ]
        for port, granted in zip(self.i, arbiter.grant, strict=True):
            m.d.comb += port.ready.eq((granted | barrier) & free)

        chosen = Signal(self.ways)
        m.d.comb += chosen.eq(arbiter.grant | barrier)
        merged = reduce(
            or_,
            (
                Value.cast(port.payload) & one.replicate(len(Value.cast(port.payload)))
                for port, one in zip(self.i, chosen, strict=True)
            ),
        )
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq((arbiter.requests != 0) | barrier),
                Value.cast(self._payload).eq(merged),
            ]

        return m


class MergeTree(wiring.Component):
    """Merge any number of streams through a balanced tree of mergers.

    A queue behind each merger cuts ``ready``, so that no path is longer than one node (Teubner
    and Mueller, appendix A.4). While any input has something, one payload per cycle leaves the
    root, wherever it came from. Each node is fair to its branches, and neighbouring branches carry
    equally many inputs, give or take one. Stars are merged as in ``Merger``.

    Works in ``sync``; rename that to give the network its own clock.

    Parameters
    ----------
    shape : shape-like
        Payload shape, identical on all ports.
    inputs : int
        Number of inputs, at least 1.
    fan_in : int
        Largest number of inputs of a node, 2 to 8.
    depth : int
        Depth of the queue behind each merger, at least 2. At 2 it is a ``Buffer``.

    Members
    -------
    i : ``In(stream.Signature(shape)).array(inputs)``
        Inputs.
    o : ``Out(stream.Signature(shape))``
        Merged output, from flip-flops. Order is kept within an input, not across inputs.

    Attributes
    ----------
    levels : int
        Largest number of mergers between an input and the output: ``ceil(log(inputs, fan_in))``.
    latency : int
        Largest number of cycles from an input to the output of an idle tree: 2 per level with
        buffers, 3 with deeper queues, and 1 for a single input, which has a buffer only.
    """

    def __init__(self, shape, *, inputs, fan_in=4, depth=2):
        if inputs < 1:
            raise ValueError(f"a merge tree needs at least 1 input, not {inputs!r}")
        if fan_in not in range(2, 9):
            raise ValueError(f"fan-in of a merge tree must be 2 to 8, not {fan_in!r}")
        if depth < 2:
            raise ValueError(f"queues of a merge tree need a depth of at least 2, not {depth!r}")
        self.shape = shape
        self.inputs = inputs
        self.fan_in = fan_in
        self.depth = depth
        self.levels = height(inputs, fan_in)
        self.latency = self.levels * (2 if depth == 2 else 3) or 1
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(inputs),
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()

        def gather(ports, level, path):
            """Merge ``ports`` in a subtree of ``level`` levels and return its output."""
            if level == 0:
                return ports[0]
            branches = split(ports, span=self.fan_in ** (level - 1))
            if len(branches) == 1:  # nothing to merge here
                return gather(branches[0], level - 1, path)
            merger = Merger(self.shape, ways=len(branches))
            if self.depth == 2:
                queue = Buffer(self.shape)
            else:
                queue = Fifo(self.shape, depth=self.depth)
            m.submodules[f"merger{path}"] = merger
            m.submodules[f"queue{path}"] = queue
            for index, (branch, port) in enumerate(zip(branches, merger.i, strict=True)):
                wiring.connect(m, gather(branch, level - 1, f"{path}_{index}"), port)
            wiring.connect(m, merger.o, queue.i)
            return queue.o

        root = gather([wiring.flipped(port) for port in self.i], self.levels, "")
        if self.levels:
            wiring.connect(m, root, wiring.flipped(self.o))
        else:
            m.submodules.queue = queue = Buffer(self.shape)
            wiring.connect(m, root, queue.i)
            wiring.connect(m, queue.o, wiring.flipped(self.o))

        return m
