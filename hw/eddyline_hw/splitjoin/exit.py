"""The way out of an operator, for whoever has a ``ready``."""

from amaranth import Module, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from eddyline_hw.stream.room import RoomQueue
from eddyline_hw.stream.trusting import rise_and_fall

__all__ = ["Exit"]


class Exit(wiring.Component):
    """Queue wide payloads that cannot be stopped on their way here, and read them where they lie.

    A payload pushed into an empty queue is on offer in the next cycle. Only its place waits for
    ``ready``, and no wide register does.

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

    latency = 1

    def __init__(self, shape, *, flight):
        self._shape = shape
        self._depth = RoomQueue.depth_for(flight)
        self._allowed = self._depth - RoomQueue.BEHIND - flight
        super().__init__(
            {
                "push": In(1),
                "payload": In(shape),
                "room": Out(1, init=1),
                "o": Out(stream.Signature(shape)),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._depth
        m.submodules.storage = storage = Memory(
            shape=Shape.cast(self._shape).width, depth=depth, init=[]
        )
        w_port, r_port = storage.write_port(), storage.read_port(domain="comb")
        place, following, levels = Signal(range(depth)), Signal(range(depth)), Signal(depth)
        leaves = Signal()
        m.d.comb += [
            # The next place is free: what is written there before its time does not matter.
            w_port.en.eq(1),
            w_port.addr.eq(following),
            w_port.data.eq(self.payload),
            r_port.addr.eq(place),
            self.o.payload.eq(r_port.data),
            self.o.valid.eq(levels[0]),
            leaves.eq(self.o.valid & self.o.ready),
        ]
        rise_and_fall(m, levels, enters=self.push, leaves=leaves)
        m.d.sync += self.room.eq(~levels[self._allowed - 1])
        with m.If(self.push):
            m.d.sync += following.eq(following + 1)
        with m.If(leaves):
            m.d.sync += place.eq(place + 1)
        with m.If(levels[-1]):
            m.d.sync += self.overrun.eq(1)
        return m
