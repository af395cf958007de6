"""One side's share of a window on one core, as a ring that knows its turn."""

from amaranth import Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from eddyline_hw.handshake.overflow import OverflowGuard
from eddyline_hw.layouts import entry_layout
from eddyline_hw.splitjoin.expiry import Expiry
from eddyline_hw.window import MOST_ROWS_IN_LUTRAM
from eddyline_hw.window.signature import place_layout, slot_layout

__all__ = ["Region"]


class Region(wiring.Component):
    """Keep every ``cores``-th tuple of a side, and say which of them are in the window.

    Tuple ``n`` goes to core ``n % cores``, into slot ``n // cores`` modulo the slots in use: every
    core counts on its own. All cores write the slot of the round in progress, the *head*; a core
    has either stored in this round or not. A window of ``(slots - 1) * cores + rest`` tuples holds
    the slot that is written next (the oldest) only while the core's next turn is at least
    ``cores - rest`` arrivals away, so no tuple needs a number.

    Read oldest first (``inner``), a scan begins at the head, as the old tuple that may still be
    there, goes round, and ends at the head again, as the new tuple: the same intervals in the same
    places on all cores.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    side : str
        Whose tuples are kept.
    position, cores : int
        Which core this is, of how many.
    slots : int
        Capacity.
    lanes : int
        Slots read at a time.
    memory : str
        ``lutram``, ``bram``, or ``auto`` for what suits the size. All behave alike, with registers
        in front of the memory and behind.
    log_bits : int
        Width of ``log``.

    Members
    -------
    last : ``In(place_layout(slots, lanes))``
        Place of the last slot in use; in a window of time, at least the second.
    young_from : ``In(range(cores))``
        Distance of the next turn from which on the oldest slot counts.
    keep : ``In(1)``
        No tuple may ever be overwritten.
    clear : ``In(1)``
        Empty the ring, before the next scan begins.
    arrive, entering : In
        A tuple of this side comes, which may or may not be this core's.
    step : ``In(1)``
        ``row`` is read in this cycle: counts intervals.
    row, first, ends, inner, log : In
        What to read; ``first`` and ``ends`` mark the first and last row of a scan.
    now : ``In(64)``
        Time of the newest arrival of either side, in a window of time.
    start : Out
        Row of the head, where a scan with ``inner`` begins.
    begin, reach : Out
        Row where any other scan begins, and rows behind it: all of them, or in a window of time
        those with young tuples.
    lanes : Out
        The row of two cycles ago; only tuples in the window are valid.
    marks : ``Out(lanes)``
        Lanes of that row behind which a star comes.
    overflow : ``Out(1)``
        A tuple was overwritten that had to stay; stays set until reset.
    """

    latency = 2

    def __init__(self, plan, *, side, position, cores, slots, lanes, memory="auto", log_bits=4):
        self.plan = plan
        self.side = side
        self.position = position
        self.cores = cores
        self.slots = slots
        self.width = lanes
        self.rows = -(-slots // lanes)
        if memory == "auto":
            memory = "lutram" if self.rows <= MOST_ROWS_IN_LUTRAM else "bram"
        if memory not in ("lutram", "bram"):
            raise ValueError(f"no memory {memory!r} (known: auto, lutram, bram)")
        self.memory = memory
        self.entry = entry_layout(plan)[side].shape
        self.timed = any(word.name == "until" for word in plan.layout(side).words)
        if self.timed and slots < 2:
            raise ValueError("a window of time needs at least 2 slots on each core")
        super().__init__(
            {
                "last": In(place_layout(slots, lanes)),
                "young_from": In(range(cores)),
                "keep": In(1),
                "clear": In(1),
                "arrive": In(1),
                "entering": In(self.entry),
                "step": In(1),
                "row": In(range(self.rows)),
                "first": In(1),
                "ends": In(1),
                "inner": In(1),
                "log": In(log_bits),
                "now": In(64),
                "start": Out(range(self.rows)),
                "begin": Out(range(self.rows)),
                "reach": Out(range(self.rows)),
                "lanes": Out(slot_layout(self.entry)).array(lanes),
                "marks": Out(lanes),
                "overflow": Out(1),
            }
        )

        place = place_layout(slots, lanes)
        self._head = Signal(place)  # the slot of the round in progress
        self._following = Signal(place)  # the slot behind it
        self._distance = Signal(range(cores), init=position)  # arrivals before this core's turn
        self._stored = Signal()  # this core has stored in this round
        self._store = Signal()  # the tuple that comes is this core's
        self._wrapped = Signal()  # every slot has been written since the last clear

    def elaborate(self, platform):
        m = Module()
        self._count(m)
        self._read(m)
        self._choose(m)
        self._mark(m)
        self._expire(m)
        return m

    def _count(self, m):
        """Follow the turns, and write."""
        head, following = self._head, self._following
        phase = Signal(range(self.cores))
        mine, round_ends = Signal(), Signal()
        m.d.comb += [
            mine.eq(self._distance == 0),
            round_ends.eq(phase == self.cores - 1),
            self.start.eq(head.row),
        ]

        # One step ahead of the head, so that nothing waits for the wrap. A cycle after a round ends
        # it still is the head's own place: too early for anyone to look, unless each arrival ends
        # a round.
        base, after = Signal.like(head), Signal.like(head)
        m.d.comb += [
            base.eq(head if self.cores > 1 else Mux(self.arrive, following, head)),
            after.row.eq(base.row),
            after.lane.eq(base.lane + 1),
        ]
        with m.If(base.lane == self.width - 1):
            m.d.comb += [after.row.eq(base.row + 1), after.lane.eq(0)]
        with m.If(base == self.last):
            m.d.comb += after.as_value().eq(0)
        m.d.sync += following.eq(after)

        with m.If(self.arrive):
            m.d.sync += [
                phase.eq(Mux(round_ends, 0, phase + 1)),
                self._distance.eq(Mux(mine, self.cores - 1, self._distance - 1)),
            ]
            with m.If(mine):
                m.d.sync += self._stored.eq(1)
            with m.If(round_ends):
                m.d.sync += [head.eq(following), self._stored.eq(0)]
                with m.If(following.as_value() == 0):
                    m.d.sync += self._wrapped.eq(1)
        with m.If(self.clear):
            m.d.sync += [
                head.as_value().eq(0),
                phase.eq(0),
                self._distance.eq(self.position),
                self._stored.eq(0),
                self._wrapped.eq(0),
            ]

        m.d.comb += self._store.eq(self.arrive & mine)

    def _read(self, m):
        for lane, port in enumerate(self.lanes):
            m.submodules[f"lane{lane}"] = memory = Memory(
                shape=Shape.cast(self.entry).width, depth=self.rows, init=[]
            )
            write_port = memory.write_port()
            m.d.comb += [
                write_port.addr.eq(self._head.row),
                write_port.data.eq(self.entering),
                write_port.en.eq(self._store & (self._head.lane == lane)),
            ]
            if self.memory == "lutram":
                read_port = memory.read_port(domain="comb")
                m.d.sync += read_port.addr.eq(self.row)
            else:
                read_port = memory.read_port(domain="sync")
                m.d.comb += read_port.addr.eq(self.row)
            read = Signal(self.entry, name=f"read{lane}", reset_less=True)
            m.d.sync += read.eq(read_port.data)
            m.d.comb += port.entry.eq(read)

    def _choose(self, m):
        """Decide which slots of a row count: first about the row, then about its lanes."""
        head, lanes = self._head, range(self.width)
        oldest = Signal.like(head)
        m.d.comb += oldest.eq(Mux(self._stored, self._following, head))

        below, at_head, at_oldest, at_last = (
            Signal(name=n) for n in ("below", "at_head", "at_oldest", "at_last")
        )
        stored, wrapped, young = (Signal(name=n) for n in ("was_stored", "was_wrapped", "young"))
        opens, finishes, inner = (Signal(name=n) for n in ("opens", "finishes", "was_inner"))
        head_lane = Signal.like(head.lane, name="head_lane")
        oldest_lane = Signal.like(head.lane, name="oldest_lane")
        m.d.sync += [
            below.eq(self.row < head.row),
            at_head.eq(self.row == head.row),
            at_oldest.eq(self.row == oldest.row),
            at_last.eq(self.row == self.last.row),
            stored.eq(self._stored),
            wrapped.eq(self._wrapped),
            young.eq(self._distance >= self.young_from),
            opens.eq(self.first & self.inner),
            finishes.eq(self.ends & self.inner),
            inner.eq(self.inner & self.step),
            head_lane.eq(head.lane),
            oldest_lane.eq(oldest.lane),
        ]

        self._within = Signal(self.width)  # lanes whose interval this row has, but the last one
        for lane, port in zip(lanes, self.lanes, strict=True):
            exists, before, here = (Signal(name=f"{n}{lane}") for n in ("exists", "before", "here"))
            m.d.comb += [
                exists.eq(~at_last | (self.last.lane >= lane)),
                before.eq(head_lane > lane),
                here.eq(head_lane == lane),
            ]
            written = wrapped | below | (at_head & (before | (here & stored)))
            expired = at_oldest & (oldest_lane == lane) & ~young
            as_old = ~opens | Mux(here, ~stored, ~before)
            as_new = ~finishes | Mux(here, stored, before)
            m.d.sync += port.valid.eq(exists & written & ~expired & as_old & as_new)
            m.d.comb += self._within[lane].eq(
                inner & exists & (~opens | ~before) & (~finishes | before)
            )

    def _mark(self, m):
        """Give intervals of a scan numbers, and mark every ``2 ** log``-th."""
        # Enough bits that no number comes round again; larger powers than that mark nothing.
        bits = bits_for(self.slots + 1 + self.width)
        number = Signal(bits)  # of lane 0
        at_last = Signal()
        passed = Mux(at_last, self.last.lane + 1, self.width)
        with m.If(self.step):
            m.d.sync += [
                at_last.eq(self.row == self.last.row),
                number.eq(Mux(self.first, -self._head.lane, number + passed)),
            ]
        mask = Signal(bits)
        m.d.sync += mask.eq(Cat(self.log > bit for bit in range(bits)))
        for lane in range(self.width):
            # number + lane + 1 is a multiple, without an adder
            rest = (number ^ Const(-(lane + 1) % 2**bits, bits)) & mask
            m.d.sync += self.marks[lane].eq(self._within[lane] & (rest == 0))

    def _expire(self, m):
        """Leave out rows that are too old, and notice what is overwritten too early."""
        m.submodules.guard = guard = OverflowGuard(self.plan, side=self.side)
        m.d.comb += [guard.keep.eq(self.keep), self.overflow.eq(guard.overflow)]
        leaves = self._store & self._wrapped
        if not self.timed:
            m.d.comb += [guard.leaves.eq(leaves), self.reach.eq(self.last.row)]
            return
        words = self.entering.words
        m.submodules.expiry = expiry = Expiry(
            slots=self.slots, lanes=self.width, memory=self.memory
        )
        m.d.comb += [
            expiry.last.eq(self.last),
            expiry.clear.eq(self.clear),
            expiry.now.eq(self.now),
            expiry.store.eq(self._store),
            expiry.place.eq(self._head),
            expiry.until.eq(words.until),
            self.begin.eq(expiry.begin),
            self.reach.eq(expiry.reach),
        ]
        when = words.when
        for cycle in range(2):  # as long as looking up what is overwritten takes
            m.d.sync += [
                (one := Signal(name=f"leaves{cycle}")).eq(leaves),
                (other := Signal(64, name=f"when{cycle}")).eq(when),
            ]
            leaves, when = one, other
        m.d.comb += [
            guard.leaves.eq(leaves),
            guard.old[self.side].words.until.eq(expiry.replaced),
            guard.new[self.side].words.when.eq(when),
        ]
