"""What stands around a part of SplitJoin inside the operator, with plain streams outside."""

from amaranth import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.combiner import Combiner
from eddyline_hw.splitjoin.layouts import item_layout, record_layout
from eddyline_hw.stream.preview import Preview
from eddyline_hw.stream.room import RoomQueue
from eddyline_hw.stream.tickets import TicketQueue

__all__ = ["Collected", "Combined"]


def _offer(pair):
    """Return the layout of an item and what follows it. What is no star is a result."""
    flags = {name: field.shape for name, field in item_layout() if name != "result"}
    return data.StructLayout({"item": data.StructLayout(flags), "pair": pair})


def _flags(item, flags):
    """Return assignments to ``item`` of what was offered."""
    given = [item[name].eq(flags[name]) for name, _ in flags.shape()]
    return [*given, item.result.eq(~flags.star)]


def _later(m, value, cycles, name):
    """Return ``value`` of some cycles ago."""
    for cycle in range(cycles):
        m.d.sync += (late := Signal.like(value, name=f"{name}_{cycle}")).eq(value)
        value = late
    return value


def _enter(m, name, port):
    """Queue what comes at ``port`` as a tree does; return the queue."""
    clears = ("star", "result", "final")
    queue = TicketQueue(item_layout(), port.p.pair.shape(), flight=0, clears=clears)
    m.submodules[name] = queue
    m.d.comb += [
        port.ready.eq(queue.room),
        queue.push.eq(port.valid & port.ready),
        *_flags(queue.head, port.p.item),
        queue.body.eq(port.p.pair),
    ]
    return queue


class Collected(wiring.Component):
    """A collection tree between streams of items with their pairs.

    What comes is as late as it may be.

    Parameters
    ----------
    tree : CollectionTree
        The tree.
    flight, lag : int
        Those of the tree.
    """

    def __init__(self, tree, *, flight, lag):
        self.tree = tree
        self.flight = flight
        self.lag = lag
        offer = stream.Signature(_offer(tree.pair.shape()))
        super().__init__(
            {
                "i": In(offer).array(tree.inputs),
                "enabled": In(tree.inputs),
                "o": Out(offer),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.tree = tree = self.tree
        for number, port in enumerate(self.i):
            room, name = tree.rooms[number], f"input{number}"
            push = _later(m, port.valid & room, self.flight, f"{name}_push")
            item = _later(m, port.p.item, self.flight, f"{name}_item")
            pair = _later(m, port.p.pair, self.flight + self.lag, f"{name}_pair")
            m.d.comb += [
                port.ready.eq(room),
                tree.pushes[number].eq(push),
                *_flags(tree.items[number], item),
                tree.pairs[number].eq(pair),
            ]

        m.submodules.exit = leaving = RoomQueue(self.o.p.shape(), flight=2)
        wiring.connect(m, leaving.o, wiring.flipped(self.o))
        left = _later(m, tree.o.payload, 2, "item")
        m.d.comb += [
            tree.enabled.eq(self.enabled),
            tree.o.ready.eq(~tree.o.valid | leaving.room),
            # As late as the pair.
            leaving.push.eq(_later(m, tree.o.valid & tree.o.ready, 2, "took")),
            *(leaving.payload.item[name].eq(left[name]) for name, _ in self.o.p.item.shape()),
            leaving.payload.pair.eq(tree.pair),
            self.overrun.eq(tree.overrun | leaving.overrun),
        ]
        return m


class Combined(wiring.Component):
    """A combiner between streams of items with their pairs, of records and of what leaves.

    Parameters
    ----------
    combiner : Combiner
        The combiner.
    """

    def __init__(self, combiner):
        self.combiner = combiner
        super().__init__(
            {
                "i": In(stream.Signature(_offer(combiner.pairs[0].shape()))).array(2),
                "records": In(stream.Signature(record_layout())),
                "o": Out(stream.Signature(combiner.joined.shape())),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()

        m.submodules.combiner = combiner = self.combiner
        for number, port in enumerate(self.i):
            queue = _enter(m, f"queue{number}", port)
            wiring.connect(m, queue.o, combiner.i[number])
            m.d.comb += combiner.pairs[number].eq(queue.follows)
        m.submodules.records = records = Preview(record_layout())
        shown = Value.cast(self.records.payload) & self.records.valid.replicate(3)
        m.d.comb += [
            records.i.valid.eq(self.records.valid),
            records.i.payload.eq(shown),
            self.records.ready.eq(records.i.ready),
        ]
        wiring.connect(m, records.o, combiner.records)

        m.submodules.exit = leaving = RoomQueue(self.o.p.shape(), flight=Combiner.flight)
        wiring.connect(m, leaving.o, wiring.flipped(self.o))
        m.d.comb += [
            combiner.room.eq(leaving.room),
            leaving.push.eq(combiner.push),
            leaving.payload.eq(combiner.joined),
            self.overrun.eq(leaving.overrun),
        ]
        return m
