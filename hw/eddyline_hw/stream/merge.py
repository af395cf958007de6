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
    for at most ``ways - 1`` others. Throughput is one payload per cycle whatever the inputs do: an
    output cycle stays empty only if no payload was waiting in the cycle before. Latency is two
    cycles, one to choose and one to take.

    If the payload has a field ``star``, stars are barriers: an input whose next payload is a star
    is not served until every input shows one; then all are taken in one cycle and leave as one
    star. No payload crosses its star. A star costs two cycles besides its own.

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
        depends on ``o.ready`` and on the star of the same input.
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
        # Whose payload is taken is decided a cycle ahead, so that the wide multiplexer is steered
        # by flip-flops. An offer that is seen and not taken is still there in the next cycle; of
        # the input that is being taken from nothing is known, but the arbiter puts it last.
        self._turn = Signal(ways)
        self._barrier = Signal()  # every input shows a star
        self._payload = Signal(shape, reset_less=True)

    def elaborate(self, platform):
        m = Module()

        m.submodules.arbiter = arbiter = RoundRobinArbiter(self.ways)

        heads = Signal(self.ways)  # inputs whose next payload is no star
        stars = Signal(self.ways)
        barrier = self._barrier
        free = Signal()
        served = Signal()

        if self.punctuated:
            m.d.comb += stars.eq(Cat(port.valid & port.payload.star for port in self.i))
        m.d.comb += [
            heads.eq(Cat(port.valid for port in self.i) & ~stars),
            free.eq(~self.o.valid | self.o.ready),
            served.eq((self._turn & heads).any() | barrier),
            arbiter.requests.eq(heads),
            arbiter.advance.eq(free),
            self.o.payload.eq(self._payload),
        ]
        for port, granted in zip(self.i, self._turn & ~stars, strict=True):
            m.d.comb += port.ready.eq((granted | barrier) & free)

        chosen = Signal(self.ways)
        m.d.comb += chosen.eq(self._turn | barrier)
        merged = reduce(
            or_,
            (
                Value.cast(port.payload) & mine.replicate(len(Value.cast(port.payload)))
                for port, mine in zip(self.i, chosen, strict=True)
            ),
        )
        with m.If(free):
            m.d.sync += [self.o.valid.eq(served), Value.cast(self._payload).eq(merged)]

        # A turn that was for nothing passes on even while the output stalls.
        with m.If(~served):
            m.d.comb += arbiter.advance.eq(1)
        with m.If(free | ~served):
            m.d.sync += [self._turn.eq(arbiter.grant), barrier.eq(stars.all())]
            with m.If(barrier):
                m.d.sync += barrier.eq(0)

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
        Depth of the queue behind each merger: 2, which is a ``Buffer``, or at least 5, where a
        ``Fifo`` has full rate.

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
        Largest number of cycles from an input to the output of an idle tree: 3 per level with
        buffers, 4 with deeper queues, and 1 for a single input, which has a buffer only.
    """

    def __init__(self, shape, *, inputs, fan_in=4, depth=2):
        if inputs < 1:
            raise ValueError(f"a merge tree needs at least 1 input, not {inputs!r}")
        if fan_in not in range(2, 9):
            raise ValueError(f"fan-in of a merge tree must be 2 to 8, not {fan_in!r}")
        if depth < 2 or depth in (3, 4):
            raise ValueError(
                f"queues of a merge tree have a depth of 2 or at least 5, not {depth!r}"
            )
        self.shape = shape
        self.inputs = inputs
        self.fan_in = fan_in
        self.depth = depth
        self.levels = height(inputs, fan_in)
        self.latency = self.levels * (3 if depth == 2 else 4) or 1
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
