# amaranth: UnusedElaboratable=no
"""SplitJoin's cores: every arrival is stored by exactly one of them, for all time, by induction.

Each core counts on its own, so nothing but the sequence of arrivals may matter: here each gets
them, and the flushes, in cycles of its own choice.
"""

import pytest
from amaranth import Assert, Assume, Module, Mux, Signal
from amaranth.hdl import ClockDomain

from eddyline.plan import All, Layout, Order, Plan, Window
from eddyline_hw.splitjoin.region import Region
from tests.formal.foretell import later
from tests.formal.prove import anyconst, check
from tests.sim.mutants.mutant import Patch

EMPTY = Layout((), ())
PLAN = Plan(EMPTY, EMPTY, All(()), Window("rows", 1), Window("rows", 1), Order("none"), False, 1)
CORES = [2, 5, *(pytest.param(cores, marks=pytest.mark.slow) for cores in (3, 4))]


def top():
    m = Module()
    m.domains.sync = clock = ClockDomain("sync", reset_less=True)
    return m, [clock.clk]


def region(m, position, cores, *, slots=1, lanes=1, memory="lutram", kind=Region):
    """Add the region of one core, with its last slot in use."""
    one = kind(
        PLAN, side="r", position=position, cores=cores, slots=slots, lanes=lanes, memory=memory
    )
    m.submodules[f"core{position}"] = one
    row, lane = divmod(slots - 1, lanes)
    m.d.comb += [one.last.row.eq(row), one.last.lane.eq(lane)]
    return one


def turn(m, one):
    """Return the number of the next arrival modulo cores, counted from the last flush."""
    number = Signal(range(one.cores), name=f"number{one.position}")
    with m.If(one.clear):
        m.d.sync += number.eq(0)
    with m.Elif(one._arrive):
        m.d.sync += number.eq(Mux(number == one.cores - 1, 0, number + 1))
    return number


def distance(one, number):
    """Return how many arrivals are before this core's turn, if ``number`` is the next."""
    later = one.position + one.cores - number
    return Mux(number <= one.position, one.position - number, later)


def claim_turns(m, free, cores, kind=Region):
    """Claim that each core stores the arrivals that are its own, whenever they reach it.

    The owners of two arrivals differ unless they are a multiple of ``cores`` apart, and every
    number has an owner: exactly one core stores.
    """
    for position in range(cores):
        one = region(m, position, cores, kind=kind)
        free += [one.arriving, one.clear]
        number = turn(m, one)
        m.d.comb += [
            Assert(one._store == (one._arrive & (number == position))),
            Assert(number < cores),
            Assert(one._distance == distance(one, number)),
            Assert(one._mine == (one._distance == 0)),
            Assert(one._round_ends == (number == cores - 1)),
            Assert(one._turns == (one._arrive & one._round_ends)),
        ]


@pytest.mark.parametrize("cores", CORES)
def test_every_core_stores_what_is_its_own(cores):
    """From reset two rounds, and induction over one cycle."""
    m, free = top()
    claim_turns(m, free, cores)
    check(m, free, depth=2 * cores, induction=1)


def claim_one(m, free, cores, kind=Region):
    """Claim that of cores in step exactly one stores, whatever it is."""
    arriving, clear = Signal(), Signal()
    free += [arriving, clear]
    cores = [region(m, position, cores, kind=kind) for position in range(cores)]
    for one in cores:
        m.d.comb += [one.arriving.eq(arriving), one.clear.eq(clear)]
    m.d.comb += Assert(sum(one._store for one in cores) == cores[0]._arrive)
    return cores


@pytest.mark.parametrize("cores", CORES)
def test_exactly_one_core_stores_an_arrival(cores):
    """From reset two rounds, and induction over one cycle."""
    m, free = top()
    first, *others = claim_one(m, free, cores)
    # All that induction has to know: the turns follow each other.
    m.d.comb += Assert(first._distance < cores)
    for one in [first, *others]:
        m.d.comb += [
            Assert(one._mine == (one._distance == 0)),
            Assert(one._store == (one._arrive & one._mine)),
            Assert(one._arrive == first._arrive),
        ]
    for one in others:
        behind = first._distance + one.position
        m.d.comb += Assert(one._distance == Mux(behind >= cores, behind - cores, behind))
    check(m, free, depth=2 * cores, induction=1)


@pytest.mark.parametrize("cores", [5])
@pytest.mark.parametrize("claim", [claim_one, claim_turns])
def test_the_counter_as_printed_leaves_an_arrival_out(cores, claim):
    """Algorithm 2 wraps at k; these counters have room for that."""
    printed = Patch(
        "eddyline_hw.splitjoin.region",
        "Mux(mine, self.cores - 1, self._distance - 1)",
        "Mux(mine, self.cores, self._distance - 1)",
    )
    m, free = top()
    claim(m, free, cores, printed.load().Region)
    with pytest.raises(AssertionError, match=r"test_splitjoin\.py.* does not hold"):
        check(m, free, depth=2 * cores + 2)


def claim_slots(m, free, cores, slots, lanes, kind=Region):
    """Claim that an arrival goes into the slot of its round, in any order of events."""
    one = region(m, cores - 1, cores, slots=slots, lanes=lanes, kind=kind)
    free += [one.arriving, one.clear]
    # The flush itself takes a cycle, and so does the way of a tuple to the core after reset.
    cleared, place = Signal(init=1), Signal(range(slots))
    m.d.sync += cleared.eq(one.clear)
    m.d.comb += Assume(~(cleared & one._arrive))
    number = turn(m, one)
    with m.If(one.clear):
        m.d.sync += place.eq(0)
    with m.Elif(one._arrive & (number == cores - 1)):
        m.d.sync += place.eq(Mux(place == slots - 1, 0, place + 1))
    m.d.comb += Assert(~one._store | (one._head.row * lanes + one._head.lane == place))


@pytest.mark.parametrize(("cores", "slots", "lanes"), [(1, 5, 2), (2, 3, 2), (3, 2, 1)])
def test_an_arrival_is_stored_in_the_slot_of_its_round(cores, slots, lanes):
    """Sixteen cycles from reset: every slot is written more than once."""
    m, free = top()
    claim_slots(m, free, cores, slots, lanes)
    check(m, free, depth=16)


def test_a_slot_that_is_left_out_is_found():
    skips = Patch("eddyline_hw.splitjoin.region", "base == self.last", "0")
    m, free = top()
    claim_slots(m, free, 2, 3, 2, skips.load().Region)
    with pytest.raises(AssertionError, match=r"test_splitjoin\.py.* does not hold"):
        check(m, free, depth=16)


def claim_read(m, free, memory, kind=Region):
    """Claim that a row has what was stored there before; a tuple comes behind its arrival."""
    one = region(m, 1, 2, slots=3, lanes=2, memory=memory, kind=kind)
    free += [one.arriving, one.entering, one.row]
    place = anyconst(m, free, one._head.shape(), "place")
    hit, known, kept = Signal(), Signal(), Signal.like(one.entering)
    m.d.comb += hit.eq(one._store & (one._head == place))
    with m.If(later(m, hit, 1, "hit")):
        m.d.sync += [known.eq(1), kept.eq(one.entering)]
    # What comes in the very cycle is nobody's business: a side does not meet its own.
    asked = later(m, (one.row == place.row) & ~hit, one.latency, "asked")
    stored = later(m, known, one.latency - 1, "stored")
    tuple_ = later(m, kept, one.latency - 1, "kept")
    for lane, port in enumerate(one.lanes):
        found = asked & stored & (place.lane == lane)
        m.d.comb += Assert(~found | (port.entry.as_value() == tuple_))


@pytest.mark.parametrize("memory", ["lutram", "bram"])
def test_a_row_has_what_was_stored_before(memory):
    """Sixteen cycles from reset: every slot is written more than once."""
    m, free = top()
    claim_read(m, free, memory)
    check(m, free, depth=16)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("banks.w_addr.eq(written)", "banks.w_addr.eq(self._head.row)"),
        ("banks.r_addr.eq(row)", "banks.r_addr.eq(self.row)"),
        ("m.d.sync += banks.w_en.eq", "m.d.comb += banks.w_en.eq"),
    ],
)
def test_a_tuple_that_is_not_with_its_arrival_is_found(old, new):
    m, free = top()
    claim_read(m, free, "bram", Patch("eddyline_hw.splitjoin.region", old, new).load().Region)
    with pytest.raises(AssertionError, match=r"test_splitjoin\.py.* does not hold"):
        check(m, free, depth=16)
