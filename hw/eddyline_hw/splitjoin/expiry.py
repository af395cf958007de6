"""Which rows of a region still hold young tuples."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from eddyline_hw.window.signature import place_layout

__all__ = ["Expiry"]

# Cycles from a look at the oldest tuple to the decision.
LOOK = 3


class Expiry(wiring.Component):
    """Follow the oldest young tuple of a ring in the background (section 4.4, active expiry).

    A small memory holds until when each tuple is young. The oldest one is looked at every few
    cycles and given up when it is old. Comparators check ages anyway: this only saves rows, so it
    may lag. Times of arrivals must not decrease.

    Parameters
    ----------
    slots, lanes : int
        Size of the ring.
    memory : str
        ``lutram`` or ``bram``.

    Members
    -------
    last : ``In(place_layout(slots, lanes))``
        Place of the last slot in use; at least the second.
    clear : ``In(1)``
        The ring is emptied.
    now : ``In(64)``
        Time of the newest arrival.
    store, place : In
        A tuple is stored there.
    until : ``In(64)``
        How long the tuple is young that was stored in the last cycle.
    replaced : ``Out(64)``
        Until when the tuple was young that a ``store`` two cycles ago has overwritten.
    begin : Out
        Row of the oldest young tuple.
    reach : Out
        Rows behind it up to that of the newest tuple, including one stored in this cycle; right
        after a tuple was stored, maybe some more, but never a row twice.
    sole, pair : ``Out(1)``
        ``reach`` is 0, it is at most 1.
    """

    def __init__(self, *, slots, lanes, memory):
        place = place_layout(slots, lanes)
        self.slots = slots
        self.width = lanes
        self.rows = -(-slots // lanes)
        self.memory = memory
        super().__init__(
            {
                "last": In(place),
                "clear": In(1),
                "now": In(64),
                "store": In(1),
                "place": In(place),
                "until": In(64),
                "replaced": Out(64),
                "begin": Out(range(self.rows)),
                "reach": Out(range(self.rows)),
                "sole": Out(1),
                "pair": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()

        tail = Signal.like(self.place)
        held, full = Signal(range(self.slots + 1)), Signal()
        span = Signal(range(self.rows + 1))  # rows behind the tail's; its own may come again

        # A look at the tail, one bit for each cycle on the way. It is void if the tail moves.
        look, stored, old = Signal(LOOK), Signal(), Signal()
        starts, moves, pushes = Signal(), Signal(), Signal()
        m.d.sync += stored.eq(self.store)
        m.d.comb += [
            # What was just written cannot be read yet.
            starts.eq((held != 0) & (look == 0) & ~self.store & ~stored),
            pushes.eq(self.store & full),
            moves.eq(pushes | (look[-1] & old & ~self.store)),
        ]
        m.d.sync += look.eq(Mux(moves | self.store, 0, Cat(starts, look)[:LOOK]))
        self._remember(m, tail)
        m.d.sync += old.eq(self.replaced < self.now)

        row_ends = Signal()
        m.d.comb += row_ends.eq((tail.lane == self.width - 1) | (tail == self.last))
        with m.If(moves):
            m.d.sync += tail.lane.eq(Mux(row_ends, 0, tail.lane + 1))
            with m.If(row_ends):
                m.d.sync += tail.row.eq(Mux(tail.row == self.last.row, 0, tail.row + 1))
        opens_row = Signal()
        m.d.comb += opens_row.eq(self.store & (self.place.lane == 0) & (held != 0))
        m.d.sync += [
            held.eq(held + self.store - moves),
            span.eq(span + opens_row - (moves & row_ends & (span != 0))),
        ]
        slots = Signal.like(held)
        m.d.sync += slots.eq(self.last.row * self.width + self.last.lane + 1)
        m.d.comb += full.eq(held == slots)
        with m.If(self.clear):
            m.d.sync += [tail.as_value().eq(0), held.eq(0), span.eq(0), look.eq(0)]

        # These lag by a cycle, in which a tuple may have come, like in this one: then read a row
        # or two more than may be needed.
        exact, ample = Signal.like(self.reach), Signal.like(self.reach)
        for reach, rows in ((exact, span), (ample, span + 2)):
            m.d.sync += reach.eq(Mux(rows > self.last.row, self.last.row, rows))
        m.d.comb += [
            self.begin.eq(tail.row),
            self.reach.eq(Mux(self.store | stored, ample, exact)),
            self.sole.eq(self.reach == 0),
            self.pair.eq(self.reach <= 1),
        ]
        return m

    def _remember(self, m, tail):
        """Look up the tail, or what is overwritten; a cycle later, write."""
        looked_at = Cat(tail.lane, tail.row)
        target = Cat(self.place.lane, self.place.row)
        m.submodules.untils = memory = Memory(shape=64, depth=2 ** len(target), init=[])
        write_port = memory.write_port()
        address = Signal(len(target))
        m.d.comb += [
            address.eq(Mux(self.store, target, looked_at)),
            write_port.data.eq(self.until),
        ]
        m.d.sync += [write_port.addr.eq(target), write_port.en.eq(self.store)]
        if self.memory == "lutram":
            read_port = memory.read_port(domain="comb")
            m.d.sync += read_port.addr.eq(address)
        else:
            read_port = memory.read_port(domain="sync")
            m.d.comb += read_port.addr.eq(address)
        m.d.sync += self.replaced.eq(read_port.data)
