"""The way of the results of one side out of all cores."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import item_layout, pair_layout
from eddyline_hw.splitjoin.merger import PunctuatedMerger
from eddyline_hw.stream.arbiter import any_below
from eddyline_hw.stream.preview import foretold
from eddyline_hw.stream.registered import gather
from eddyline_hw.stream.tickets import TicketQueue
from eddyline_hw.stream.tree import height, split

__all__ = ["CollectionTree"]


class CollectionTree(wiring.Component):
    """Queue the items of all cores and merge them through a balanced tree of punctuated mergers.

    One item per cycle leaves the root, wherever it came from, and a queue behind each merger keeps
    what is decided there apart from the next.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    inputs : int
        Number of cores, at least 1.
    fan_in : int
        Largest number of inputs of a node, 2 to 8.
    flight, lag : int
        Most cycles from a look at a core's room to the item that comes of it, and from an item to
        its pair.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    pushes, items : arrays, In
        An item comes from a core in this cycle.
    pairs : ``In(pair_layout(plan, carried)).array(inputs)``
        What belongs to the items, ``lag`` cycles later.
    rooms : ``Out(inputs)``
        The core may send another item.
    enabled : ``In(inputs)``
        Nobody waits for other inputs; what comes from them is not taken any more. An input that
        was switched off must stay so. With a single input it has no effect.
    o : ``Out(foretold(item_layout()))``
        There is no star, nor a result, nor ``final``, while nothing is on offer.
    pair : ``Out(pair_layout(plan, carried))``
        What belongs to the item on offer two cycles ago.
    overrun : ``Out(1)``
        Something was lost. Stays set until reset.

    Attributes
    ----------
    levels : int
        Mergers between an input and the output: ``ceil(log(inputs, fan_in))``.
    latency : int
        Cycles from an input to the output of an idle tree: 3, and 4 per level.
    """

    def __init__(self, plan, *, inputs, flight, lag, fan_in=4, carried=()):
        if inputs < 1:
            raise ValueError(f"a collection tree needs at least 1 input, not {inputs!r}")
        if fan_in not in range(2, 9):
            raise ValueError(f"fan-in of a collection tree must be 2 to 8, not {fan_in!r}")
        self.inputs = inputs
        self.fan_in = fan_in
        self.levels = height(inputs, fan_in)
        level = PunctuatedMerger.flight - 1 + TicketQueue.latency
        self.latency = TicketQueue.latency + level * self.levels
        self._flight = flight
        self._lag = lag
        pair = pair_layout(plan, carried)
        super().__init__(
            {
                "pushes": In(1).array(inputs),
                "items": In(item_layout()).array(inputs),
                "pairs": In(pair).array(inputs),
                "rooms": Out(inputs),
                "enabled": In(inputs),
                "o": Out(foretold(item_layout())),
                "pair": Out(pair),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()

        queues = []

        def queue_up(name, **options):
            clears = ("star", "result", "final")
            queue = TicketQueue(item_layout(), self.pair.shape(), clears=clears, **options)
            m.submodules[name] = queue
            queues.append(queue)
            return queue

        def collect(leaves, level, path):
            """Merge ``leaves`` through ``level`` levels; return their items and pairs."""
            if level == 0:
                (leaf,) = leaves
                queue = queue_up(f"leaf{leaf}", flight=self._flight, lag=self._lag)
                m.d.comb += [
                    queue.push.eq(self.pushes[leaf]),
                    queue.head.eq(self.items[leaf]),
                    queue.body.eq(self.pairs[leaf]),
                    self.rooms[leaf].eq(queue.room),
                ]
                if self.levels:
                    with m.If(~self.enabled[leaf]):  # nobody shall wait for it: stars without end
                        m.d.comb += [
                            queue.push.eq(queue.room),
                            queue.head.eq(item_layout().const({"star": 1})),
                        ]
                return queue.o, queue.follows
            branches = split(leaves, span=self.fan_in ** (level - 1))
            if len(branches) == 1:  # nothing to merge here
                return collect(branches[0], level - 1, path)
            m.submodules[f"merger{path}"] = merger = PunctuatedMerger(ways=len(branches))
            queue = queue_up(f"queue{path}", flight=PunctuatedMerger.flight, lag=2)
            alive = Cat(Cat(self.enabled[leaf] for leaf in one).any() for one in branches)
            taken = Signal(len(branches), name=f"taken{path}")
            m.d.sync += [merger.leader.eq(alive & ~any_below(alive)), taken.eq(merger.taken)]
            merged = []
            for index, (branch, port) in enumerate(zip(branches, merger.i, strict=True)):
                items, pair = collect(branch, level - 1, f"{path}_{index}")
                wiring.connect(m, items, port)
                merged.append(Value.cast(pair) & taken[index].replicate(pair.shape().size))
            m.d.sync += Value.cast(queue.body).eq(reduce(or_, merged))
            m.d.comb += [
                merger.room.eq(queue.room),
                queue.push.eq(merger.push),
                queue.head.eq(merger.item),
            ]
            return queue.o, queue.follows

        items, pair = collect(list(range(self.inputs)), self.levels, "")
        wiring.connect(m, items, wiring.flipped(self.o))
        m.d.comb += self.pair.eq(pair)
        m.d.comb += self.overrun.eq(gather(m, [queue.overrun for queue in queues]))
        return m
