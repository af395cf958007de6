"""A segment of the asynchronous chain: a queue whose sent tuples stay until acknowledged."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.window.banks import Banks
from eddyline_hw.window.signature import place_layout, slot_layout

__all__ = ["HeldWindow"]


class HeldWindow(wiring.Component):
    """Hold tuples in order of arrival, some of the oldest marked as sent (figure 6).

    Any of ``insert``, ``pass_on`` and ``remove`` may happen in the same cycle. Memory has one read
    port: a scan uses it, and in other cycles the window looks up the next tuple to send.

    Parameters
    ----------
    shape : shape-like
        What a slot holds.
    slots : int
        Tuples that must fit.
    lanes : int
        Slots read at a time.
    memory : str
        ``lutram`` or ``bram``.
    skip_sent : bool
        A scan reads only tuples that have not been sent.

    Members
    -------
    insert, entering : In
        Add a tuple. Only when ``room``.
    room : ``Out(1)``
        There is a slot for this tuple and another one that may be on its way.
    first, first_valid : Out
        The oldest tuple that has not been sent, once it has been looked up.
    pass_on : ``In(1)``
        Mark it as sent, before a scan that starts in the same cycle. With ``remove`` in the same
        cycle and none sent, it just goes. Only when
        ``first_valid``.
    remove : ``In(1)``
        Take the oldest tuple away.
    unsent, sent : Out
        Tuples of either kind.
    scan : ``In(1)``
        Read the tuples that are here now, from the next cycle on. Only when ``last_row`` is set.
    pause : ``In(1)``
        Read no row in this cycle; start no scan.
    scanning : ``Out(1)``
        ``lanes`` shows, ``latency`` cycles later, slots of this cycle's row.
    last_row : ``Out(1)``
        No scan, or this is its last cycle: the next may start. A scan of a single row shows it a
        cycle late.
    lanes : Out
        Slots of a row, valid only within the scan.
    """

    latency = Banks.latency

    def __init__(self, shape, *, slots, lanes, memory="lutram", skip_sent=False):
        self.skip_sent = skip_sent
        self.shape = shape
        self.width = lanes
        # At least one row more than tuples need: a scan then never meets the same row at both ends.
        # A power of two, so that row numbers wrap around by themselves.
        needed = -(-slots // lanes)
        self.rows = 1 << needed.bit_length()
        self.slots = needed * lanes
        self.memory = memory
        count = range(self.slots + 1)
        super().__init__(
            {
                "insert": In(1),
                "entering": In(shape),
                "room": Out(1),
                "first": Out(shape),
                "first_valid": Out(1),
                "pass_on": In(1),
                "remove": In(1),
                "unsent": Out(count),
                "sent": Out(count),
                "scan": In(1),
                "pause": In(1),
                "scanning": Out(1),
                "last_row": Out(1, init=1),
                "lanes": Out(slot_layout(shape)).array(lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()

        place = place_layout(self.rows * self.width, self.width)
        oldest, unsent, free = (Signal(place, name=name) for name in ("oldest", "first", "free"))
        newest = Signal(place)  # the slot before `free`
        row, lane = divmod(1, self.width)
        second = Signal(place, init={"row": row, "lane": lane})  # the slot behind `unsent`
        held = Signal.like(self.unsent)

        def advance(pointer):
            with m.If(pointer.lane == self.width - 1):
                m.d.sync += [pointer.lane.eq(0), pointer.row.eq(pointer.row + 1)]
            with m.Else():
                m.d.sync += pointer.lane.eq(pointer.lane + 1)

        with m.If(self.insert):
            advance(free)
            m.d.sync += newest.eq(free)
        with m.If(self.pass_on):
            advance(second)
            m.d.sync += unsent.eq(second)
        with m.If(self.remove):
            advance(oldest)
        for count, rises, falls in (
            (self.unsent, self.insert, self.pass_on),
            (self.sent, self.pass_on, self.remove),
            (held, self.insert, self.remove),
        ):
            with m.If(rises & ~falls):
                m.d.sync += count.eq(count + 1)
            with m.If(falls & ~rises):
                m.d.sync += count.eq(count - 1)
        any_unsent, many = Signal(), Signal()  # at least one, at least two
        with m.If(self.insert & ~self.pass_on):
            m.d.sync += [any_unsent.eq(1), many.eq(any_unsent)]
        with m.If(self.pass_on & ~self.insert):
            m.d.sync += [any_unsent.eq(many), many.eq(self.unsent > 2)]
        # One tuple may come in this cycle, and the next one be decided on already.
        m.d.sync += self.room.eq(held < self.slots - 2)

        # The scan: in its first and last row not all lanes count.
        row, last_but_one, final = (
            Signal.like(oldest.row, name=name) for name in ("row", "last_but_one", "final")
        )
        from_lane, to_lane = (Signal.like(oldest.lane, name=n) for n in ("from_lane", "to_lane"))
        starting, ends = Signal(), Signal()  # this is the first, the last row
        begin, some = oldest, held != 0
        if self.skip_sent:
            # A tuple that goes in this very cycle has gone: the neighbour compares it.
            begin = Signal.like(oldest, name="begin")
            m.d.comb += begin.eq(Mux(self.pass_on, second, unsent))
            some = Mux(self.pass_on, many, any_unsent)
        m.d.comb += ends.eq(row == final)
        with m.If(self.scan):
            m.d.sync += [
                row.eq(begin.row),
                from_lane.eq(begin.lane),
                last_but_one.eq(newest.row - 1),
                final.eq(newest.row),
                to_lane.eq(newest.lane),
                starting.eq(1),
                self.scanning.eq(some),
                self.last_row.eq(0),
            ]
        with m.Elif(self.scanning & ~self.pause):
            m.d.sync += [
                row.eq(row + 1),
                starting.eq(0),
                self.scanning.eq(~ends),
                self.last_row.eq((row == last_but_one) | ends),
            ]
        with m.Elif(~self.scanning):
            m.d.sync += self.last_row.eq(1)
        reads = self.scanning & ~self.pause
        within = Cat(
            reads & (~starting | (from_lane <= lane)) & (~ends | (to_lane >= lane))
            for lane in range(self.width)
        )

        # Where no scan needs the port, look up what is to be sent next.
        fetch = Signal()
        lookup = Signal(self.latency)  # one bit for each cycle on the way
        m.d.comb += fetch.eq(~self.scanning & any_unsent & ~self.first_valid & (lookup == 0))
        m.d.sync += lookup.eq(Cat(fetch, lookup)[: self.latency])
        read = []
        for lane in range(self.width):
            m.submodules[f"lane{lane}"] = banks = Banks(
                self.shape, depth=self.rows, memory=self.memory
            )
            m.d.comb += [
                banks.w_addr.eq(free.row),
                banks.w_data.eq(self.entering),
                # What lies in a free slot does not matter: it is written until it is right.
                banks.w_en.eq(free.lane == lane),
                banks.r_addr.eq(Mux(self.scanning, row, unsent.row)),
            ]
            read.append(banks.r_data)

        for _ in range(self.latency):
            m.d.sync += (later := Signal(self.width)).eq(within)
            within = later
        for lane, port in enumerate(self.lanes):
            m.d.comb += [port.valid.eq(within[lane]), port.entry.eq(read[lane])]

        with m.If(self.pass_on):
            m.d.sync += self.first_valid.eq(0)
        with m.If(lookup[-1]):
            m.d.sync += self.first_valid.eq(1)
            with m.Switch(unsent.lane):
                for lane in range(self.width):
                    with m.Case(lane):
                        m.d.sync += self.first.eq(read[lane])
        return m
