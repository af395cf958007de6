"""One side's share of a window on one core, as a ring that knows its turn."""

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from eddyline_hw.handshake.overflow import OverflowGuard
from eddyline_hw.layouts import entry_layout
from eddyline_hw.splitjoin.expiry import Expiry
from eddyline_hw.window import MOST_ROWS_IN_LUTRAM
from eddyline_hw.window.banks import Banks
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
        ``lutram``, ``bram``, or ``auto`` for what suits the size. All behave alike.
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
    arriving : ``In(1)``
        A tuple of this side comes in the next cycle, which may or may not be this core's. So
        whether it is, and whether it ends the round, is in a flip-flop when it comes.
    entering : In
        The tuple, two cycles after ``arriving``.
    step : ``In(1)``
        ``row`` is read in this cycle: counts intervals.
    row, first, ends, inner, log : In
        What to read; ``first`` and ``ends`` mark the first and last row of a scan.
    now : ``In(64)``
        Time of the newest arrival of either side, in a window of time.
    start : Out
        Row of the head, where a scan with ``inner`` begins.
    start_last, begin_last : ``Out(1)``
        ``start``, ``begin`` is the last row in use.
    begin, reach : Out
        Row where any other scan begins, and rows behind it: all of them, or in a window of time
        those with young tuples.
    only, sole, pair, triple : ``Out(1)``
        The last row in use is row 0; ``reach`` is 0, it is at most 1, at most 2.
    lanes : Out
        The row of three cycles ago; only tuples in the window are valid.
    marks : ``Out(lanes)``
        Lanes of that row behind which a star comes.
    overflow : ``Out(1)``
        A tuple was overwritten that had to stay; stays set until reset.
    """

    latency = 3

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
                "arriving": In(1),
                "entering": In(self.entry),
                "step": In(1),
                "row": In(range(self.rows)),
                "first": In(1),
                "ends": In(1),
                "inner": In(1),
                "log": In(log_bits),
                "now": In(64),
                "start": Out(range(self.rows)),
                "start_last": Out(1),
                "begin_last": Out(1),
                "begin": Out(range(self.rows)),
                "reach": Out(range(self.rows)),
                "sole": Out(1),
                "pair": Out(1),
                "triple": Out(1),
                "only": Out(1),
                "lanes": Out(slot_layout(self.entry)).array(lanes),
                "marks": Out(lanes),
                "overflow": Out(1),
            }
        )

        place = place_layout(slots, lanes)
        self._head = Signal(place)  # the slot of the round in progress
        self._following = Signal(place)  # the slot behind it
        self._distance = Signal(range(cores), init=position)  # arrivals before this core's turn
        self._mine = Signal(init=position == 0)  # that is 0: the next tuple is this core's
        self._round_ends = Signal(init=cores == 1)  # the next tuple is the last core's
        self._stored = Signal()  # this core has stored in this round
        self._arrive = Signal()  # a tuple comes
        self._store = Signal()  # it is this core's
        self._turns = Signal()  # it ends the round
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
        mine, round_ends, turns = self._mine, self._round_ends, self._turns
        m.d.comb += self.start.eq(head.row)

        # One step ahead of the head, so that nothing waits for the wrap. A cycle after a round ends
        # it still is the head's own place: too early for anyone to look, unless each arrival ends
        # a round.
        base, after = Signal.like(head), Signal.like(head)
        m.d.comb += [
            base.eq(head if self.cores > 1 else Mux(self._arrive, following, head)),
            after.row.eq(base.row),
            after.lane.eq(base.lane + 1),
        ]
        with m.If(base.lane == self.width - 1):
            m.d.comb += [after.row.eq(base.row + 1), after.lane.eq(0)]
        wraps, follows_first = Signal(), Signal(init=1)
        with m.If(wraps):
            m.d.comb += after.as_value().eq(0)
        m.d.sync += [following.eq(after), follows_first.eq(wraps)]

        last_row = self.last.row
        if self.cores <= 2:
            m.d.comb += wraps.eq(base == self.last)
            starts_last = Mux(turns, following.row == last_row, head.row == last_row)
            m.d.sync += self.start_last.eq(starts_last)
        else:
            # A round is long enough to compare first and decide then: what holds for the place
            # behind holds for the head when a round ends.
            moved = Signal()
            m.d.sync += moved.eq(turns | self.clear)
            for fact, name, part in (
                (wraps, "place", Value.cast),
                (self.start_last, "row", lambda place: place.row),
            ):
                end = part(self.last)
                of_head, of_following, of_first = (
                    Signal(name=f"{who}_{name}_last") for who in ("head", "following", "first")
                )
                m.d.sync += [
                    of_head.eq(part(head) == end),
                    of_following.eq(part(following) == end),
                    of_first.eq(end == 0),
                    fact.eq(Mux(turns, of_following, Mux(moved, fact, of_head))),
                ]
                with m.If(self.clear):
                    m.d.sync += fact.eq(of_first)
        # Whose turn it is behind this arrival is known before it comes.
        mine_next, ends_next = Signal(), Signal()
        m.d.comb += [mine_next.eq(mine), ends_next.eq(round_ends)]
        with m.If(self._arrive):
            m.d.sync += self._distance.eq(Mux(mine, self.cores - 1, self._distance - 1))
            m.d.comb += [
                mine_next.eq(self._distance == 1 % self.cores),
                ends_next.eq(self._distance == (self.position + 2) % self.cores),
            ]
        with m.If(self._store):
            m.d.sync += self._stored.eq(1)
        with m.If(turns):
            m.d.sync += [head.eq(following), self._stored.eq(0)]
            with m.If(follows_first):
                m.d.sync += self._wrapped.eq(1)
        with m.If(self.clear):
            m.d.comb += [mine_next.eq(self.position == 0), ends_next.eq(self.cores == 1)]
            m.d.sync += [
                head.as_value().eq(0),
                self._distance.eq(self.position),
                self._stored.eq(0),
                self._wrapped.eq(0),
            ]
            if self.cores <= 2:
                m.d.sync += self.start_last.eq(self.only)

        m.d.sync += [
            mine.eq(mine_next),
            round_ends.eq(ends_next),
            self._arrive.eq(self.arriving),
            self._store.eq(self.arriving & mine_next),
            turns.eq(self.arriving & ends_next),
        ]

    def _read(self, m):
        # A cycle late, like the tuple that is written: so a row has whatever came before it.
        row, written = Signal.like(self.row, name="read_row"), Signal.like(self._head.row)
        m.d.sync += [row.eq(self.row), written.eq(self._head.row)]
        for lane, port in enumerate(self.lanes):
            banks = Banks(self.entry, depth=self.rows, memory=self.memory)
            m.submodules[f"lane{lane}"] = banks
            m.d.sync += banks.w_en.eq(self._store & (self._head.lane == lane))
            m.d.comb += [
                banks.w_addr.eq(written),
                banks.w_data.eq(self.entering),
                banks.r_addr.eq(row),
                port.entry.eq(banks.r_data),
            ]

    def _choose(self, m):
        """Decide which slots of a row count: first about the row, then about its lanes."""
        head, lanes = self._head, range(self.width)
        following = self._following
        below, at_head, at_following, at_last = (
            Signal(name=n) for n in ("below", "at_head", "at_following", "at_last")
        )
        stored, wrapped, young = (Signal(name=n) for n in ("was_stored", "was_wrapped", "young"))
        opens, finishes, inner = (Signal(name=n) for n in ("opens", "finishes", "was_inner"))
        head_lane = Signal.like(head.lane, name="head_lane")
        following_lane = Signal.like(head.lane, name="following_lane")
        m.d.sync += [
            below.eq(self.row < head.row),
            at_head.eq(self.row == head.row),
            at_following.eq(self.row == following.row),
            at_last.eq(self.row == self.last.row),
            stored.eq(self._stored),
            wrapped.eq(self._wrapped),
            young.eq(self._distance >= self.young_from),
            opens.eq(self.first & self.inner),
            finishes.eq(self.ends & self.inner),
            inner.eq(self.inner & self.step),
            head_lane.eq(head.lane),
            following_lane.eq(following.lane),
        ]
        # The oldest slot is the one that is written next.
        at_oldest = Mux(stored, at_following, at_head)
        oldest_lane = Mux(stored, following_lane, head_lane)

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
            chosen = Signal(name=f"chosen{lane}")
            m.d.sync += [
                chosen.eq(exists & written & ~expired & as_old & as_new),
                port.valid.eq(chosen),
            ]
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
            marked = Signal(name=f"marked{lane}")
            m.d.sync += [marked.eq(self._within[lane] & (rest == 0)), self.marks[lane].eq(marked)]

    def _expire(self, m):
        """Leave out rows that are too old, and notice what is overwritten too early."""
        m.submodules.guard = guard = OverflowGuard(self.plan, side=self.side)
        m.d.comb += [guard.keep.eq(self.keep), self.overflow.eq(guard.overflow)]
        leaves = self._store & self._wrapped
        end = Signal.like(self.last.row)  # a copy nearby
        m.d.sync += [end.eq(self.last.row), self.only.eq(end == 0)]
        if not self.timed:
            m.d.comb += [
                guard.leaves.eq(leaves),
                self.reach.eq(self.last.row),
                self.begin_last.eq(self.only),
            ]
            m.d.sync += [
                self.sole.eq(end == 0),
                self.pair.eq(end[1:] == 0),
                self.triple.eq(end <= 2),
            ]
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
            self.begin_last.eq(expiry.begin == self.last.row),
            self.reach.eq(expiry.reach),
            self.sole.eq(expiry.sole),
            self.pair.eq(expiry.pair),
            self.triple.eq(expiry.reach <= 2),
        ]
        # As long as looking up what is overwritten takes.
        left, leaving, when = Signal(), Signal(), Signal(64)
        m.d.sync += [left.eq(leaves), leaving.eq(left), when.eq(words.when)]
        m.d.comb += [
            guard.leaves.eq(leaving),
            guard.old[self.side].words.until.eq(expiry.replaced),
            guard.new[self.side].words.when.eq(when),
        ]
