"""The way out of an operator, for whoever has a ``ready``."""

from amaranth import Module, Shape, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.room import RoomQueue

__all__ = ["Exit"]


class Exit(wiring.Component):
    """A :class:`RoomQueue` of wide payloads that are read where they lie.

    Only the place of the payload on offer waits for ``ready``, and no wide register does.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    flight : int
        Most cycles from a look at ``room`` to the push that comes of it.

    Members
    -------
    push, payload, room, overrun
        As of a :class:`RoomQueue`.
    o : ``Out(stream.Signature(shape))``
        ``valid`` comes from a flip-flop, ``payload`` from look-up-table memory.
    """

    latency = RoomQueue.latency

    def __init__(self, shape, *, flight):
        self._shape = shape
        self._queue = RoomQueue(unsigned(1), flight=flight)
        super().__init__(
            {
                "push": In(1),
                "payload": In(shape),
                "room": Out(1),
                "o": Out(stream.Signature(shape)),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._queue.depth
        m.submodules.queue = queue = self._queue
        m.submodules.storage = storage = Memory(
            shape=Shape.cast(self._shape).width, depth=depth, init=[]
        )
        w_port, r_port = storage.write_port(), storage.read_port(domain="comb")
        place, following = Signal(range(depth)), Signal(range(depth))
        m.d.comb += [
            queue.push.eq(self.push),
            self.room.eq(queue.room),
            self.overrun.eq(queue.overrun),
            # The next place is free: what is written there before its time does not matter.
            w_port.en.eq(1),
            w_port.addr.eq(following),
            w_port.data.eq(self.payload),
            r_port.addr.eq(place),
            self.o.payload.eq(r_port.data),
            self.o.valid.eq(queue.o.valid),
            queue.o.ready.eq(self.o.ready),
        ]
        with m.If(self.push):
            m.d.sync += following.eq(following + 1)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += place.eq(place + 1)
        return m
