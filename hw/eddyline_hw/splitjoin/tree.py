"""The way of a packet to all cores."""

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.layouts import entry_layout
from eddyline_hw.splitjoin.layouts import packet_layout
from eddyline_hw.stream.tree import height, split

__all__ = ["DistributionTree"]


class DistributionTree(wiring.Component):
    """Bring every packet to every core, one in each cycle.

    Registers only: nothing waits on the way. Instead the cores tell early enough that they have no
    room, and what they say comes together on the way back.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    outputs : int
        Number of cores, at least 1.
    fan_out : int
        Largest number of branches of a node, at least 2.

    Members
    -------
    push, packet : In
        A packet comes in this cycle.
    entry : ``In(entry_layout(plan))``
        The tuple of the packet that came in the last cycle.
    room : ``Out(1)``
        Every core had room, ``latency`` cycles ago.
    pushes, packets, entries : arrays, Out
        The same at each core, ``latency`` cycles later.
    rooms : ``In(outputs)``
        The core has room.

    Attributes
    ----------
    latency : int
        ``ceil(log(outputs, fan_out))``, at least 1.
    """

    def __init__(self, plan, *, outputs, fan_out=4):
        if outputs < 1:
            raise ValueError(f"a distribution tree needs at least 1 output, not {outputs!r}")
        if fan_out < 2:
            raise ValueError(f"fan-out of a distribution tree must be at least 2, not {fan_out!r}")
        self.plan = plan
        self.outputs = outputs
        self.fan_out = fan_out
        self.latency = max(1, height(outputs, fan_out))
        super().__init__(
            {
                "push": In(1),
                "packet": In(packet_layout()),
                "entry": In(entry_layout(plan)),
                "room": Out(1),
                "pushes": Out(1).array(outputs),
                "packets": Out(packet_layout()).array(outputs),
                "entries": Out(entry_layout(plan)).array(outputs),
                "rooms": In(outputs),
            }
        )

    def elaborate(self, platform):
        m = Module()

        def spread(source, leaves, level, path):
            """Bring ``source`` to all ``leaves`` through ``level`` relays; return their room."""
            if level == 0:
                (leaf,) = leaves
                m.d.comb += [
                    self.pushes[leaf].eq(source.push),
                    self.packets[leaf].eq(source.packet),
                    self.entries[leaf].eq(source.entry),
                ]
                return self.rooms[leaf]
            rooms = []
            for index, branch in enumerate(split(leaves, span=self.fan_out ** (level - 1))):
                relay = Relay(self.plan)
                m.submodules[f"relay{path}_{index}"] = relay
                m.d.comb += [
                    relay.push.eq(source.push),
                    relay.packet.eq(source.packet),
                    relay.entry.eq(source.entry),
                ]
                room = spread(relay.o, branch, level - 1, f"{path}_{index}")
                m.d.comb += relay.has_room.eq(room)
                rooms.append(relay.room)
            return Cat(rooms).all()

        m.d.comb += self.room.eq(spread(self, list(range(self.outputs)), self.latency, ""))
        return m


class Relay(wiring.Component):
    """One branch: a register in each direction.

    Synthesis keeps relays whole until the end, or it would merge those of neighbouring branches.
    """

    def __init__(self, plan):
        tells = {"push": 1, "packet": packet_layout(), "entry": entry_layout(plan)}
        super().__init__(
            {
                **{name: In(shape) for name, shape in tells.items()},
                "o": Out(wiring.Signature({name: Out(shape) for name, shape in tells.items()})),
                "has_room": In(1),
                "room": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [
            self.o.push.eq(self.push),
            self.o.packet.eq(self.packet),
            self.o.entry.eq(self.entry),
            self.room.eq(self.has_room),
        ]
        return m
