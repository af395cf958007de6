"""A window as a ring buffer in look-up-table or block RAM."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from eddyline_hw.window.signature import place_layout, slot_layout, window_members

__all__ = ["RingWindow"]


class RingWindow(wiring.Component):
    """Keep the last tuples in RAM, one memory per lane; only a pointer moves.

    Each memory has one write and one read port. The read port serves the scan, and in the cycle
    of a push it looks up which tuple will leave at the next push.

    Parameters
    ----------
    shape : shape-like
        What a slot holds.
    slots : int
        Capacity; at least ``LEAST_ROWS`` rows of ``lanes``.
    lanes : int
        Slots read at a time.
    memory : str
        ``lutram`` or ``bram``; both behave alike, with registers in front of the memory and behind.

    Members
    -------
    See :func:`eddyline_hw.window.signature.window_members`. ``latency`` is 2, ``interval`` 3.
    """

    latency = 2
    interval = latency + 1
    LEAST_ROWS = interval

    def __init__(self, shape, *, slots, lanes, memory="lutram"):
        if memory not in ("lutram", "bram"):
            raise ValueError(f"no memory {memory!r} (known: lutram, bram)")
        self.rows = -(-slots // lanes) if lanes >= 1 else 0
        if self.rows < self.LEAST_ROWS:
            raise ValueError(
                f"a ring in {memory} needs at least {self.LEAST_ROWS} rows, and "
                f"{slots!r} slots on {lanes!r} lanes make {self.rows}: use fewer lanes or a shift "
                "register"
            )
        self.shape = shape
        self.slots = slots
        self.width = lanes
        self.memory = memory
        super().__init__(window_members(shape, slots, lanes))

    def elaborate(self, platform):
        m = Module()

        place = place_layout(self.slots, self.width)
        head = Signal(place)  # the oldest slot: the next tuple goes there
        following = Signal(place)  # the slot after it, one cycle later
        full = Signal()  # every slot in use has been written since the last clear
        leaving = Signal(slot_layout(self.shape))

        # Pushes are three cycles apart, so `following` has a cycle to follow `head`.
        after = Signal(place)
        m.d.comb += [after.row.eq(head.row), after.lane.eq(head.lane + 1)]
        with m.If(head.lane == self.width - 1):
            m.d.comb += [after.row.eq(head.row + 1), after.lane.eq(0)]
        with m.If(head == self.last):
            m.d.comb += after.as_value().eq(0)

        m.d.sync += following.eq(after)
        with m.If(self.push):
            m.d.sync += head.eq(following)
            with m.If(following.as_value() == 0):
                m.d.sync += full.eq(1)
        with m.If(self.clear):
            m.d.sync += [head.as_value().eq(0), full.eq(0)]

        row = Signal.like(self.row)
        m.d.comb += row.eq(Mux(self.push, following.row, self.row))
        read = []
        for lane in range(self.width):
            m.submodules[f"lane{lane}"] = memory = Memory(
                shape=slot_layout(self.shape), depth=self.rows, init=[]
            )
            write_port = memory.write_port()
            m.d.comb += [
                write_port.addr.eq(head.row),
                write_port.data.eq(self.entering),
                write_port.en.eq(self.push & (head.lane == lane)),
            ]
            if self.memory == "lutram":
                read_port = memory.read_port(domain="comb")
                m.d.sync += read_port.addr.eq(row)
            else:
                read_port = memory.read_port(domain="sync")
                m.d.comb += read_port.addr.eq(row)
            read.append(Signal(slot_layout(self.shape), name=f"read{lane}", reset_less=True))
            m.d.sync += read[lane].eq(read_port.data)

        # Slots beyond the newest are what an earlier window left behind.
        end = Signal(place)
        m.d.comb += end.eq(Mux(full, self.last, head))
        written = Signal(self.width)
        for lane in range(self.width):
            reached = (end.lane > lane) | (full & (end.lane == lane))
            m.d.comb += written[lane].eq((self.row < end.row) | ((self.row == end.row) & reached))
        m.d.sync += (known := Signal(self.width)).eq(written)
        for _ in range(self.latency - 1):
            m.d.sync += (later := Signal(self.width)).eq(known)
            known = later
        for lane, port in enumerate(self.lanes):
            m.d.comb += [
                port.valid.eq(read[lane].valid & known[lane]),
                port.entry.eq(read[lane].entry),
            ]

        # What leaves next was looked up at the push; it is here `latency` cycles later.
        pushed, at = self.push, following.lane
        for _ in range(self.latency):
            m.d.sync += [(p := Signal()).eq(pushed), (q := Signal.like(at)).eq(at)]
            pushed, at = p, q
        newest = Signal(slot_layout(self.shape), reset_less=True)
        with m.If(self.push):
            m.d.sync += newest.eq(self.entering)
        with m.If(pushed):
            with m.Switch(at):
                for lane in range(self.width):
                    with m.Case(lane):
                        m.d.sync += leaving.eq(read[lane])
            # With one slot there is nothing to look up: the newest is also the next to leave.
            with m.If(self.last.as_value() == 0):
                m.d.sync += leaving.eq(newest)
            with m.If(~full):
                m.d.sync += leaving.valid.eq(0)
        with m.If(self.clear):
            m.d.sync += leaving.valid.eq(0)
        m.d.comb += self.leaving.eq(leaving)
        return m
