"""Collection tree: bounded, from reset. Any core may be switched off in any cycle, for good.

A pair says whose it is: the number it has among the items of its core, stars included, and that
of the star behind it.
"""

import pytest
from amaranth import Assert, Assume, Cat, Mux, Signal
from amaranth.lib import data

from eddyline_hw.splitjoin import collection
from eddyline_hw.stream.tickets import TicketQueue
from tests.formal.foretell import later, promise
from tests.formal.prove import anyconst, bench, check
from tests.formal.tags import count
from tests.sim.mutants.mutant import Patch

MODULE = "eddyline_hw.splitjoin.collection"
FLIGHT = LAG = 1  # of what comes from a core
TAG = data.StructLayout({"way": 2, "star": 1, "number": 4, "epoch": 2})


class Shallow(TicketQueue):
    """As few places as there can be."""

    def __init__(self, *args, **options):
        super().__init__(*args, depth=8, **options)


@pytest.fixture
def tree(monkeypatch):
    """Return what makes a tree, a module around it and its free inputs."""

    def make(inputs, module=collection):
        monkeypatch.setattr(module, "pair_layout", lambda *_: TAG)
        monkeypatch.setattr(module, "TicketQueue", Shallow)
        dut = module.CollectionTree(None, inputs=inputs, fan_in=2, flight=FLIGHT, lag=LAG)
        m, free = bench(dut)
        promise(m, dut.o, "o", clears=("star", "result", "final"))
        return dut, m, free

    return make


def feed(m, free, dut):
    """Give what comes from each core its number, and let the stars of a round be alike."""
    asks = anyconst(m, free, 4, "asks")
    was_off = later(m, ~dut.enabled, 1, "was_off")
    m.d.comb += [Assume(dut.enabled != 0), Assume((dut.enabled & was_off) == 0)]
    for way in range(dut.inputs):
        push, item = dut.pushes[way], dut.items[way]
        looks = [
            later(m, dut.rooms[way], cycles, f"room{way}_{cycles}") for cycles in range(FLIGHT + 1)
        ]
        tag = Signal(TAG, name=f"tag{way}")
        m.d.comb += [
            Assume(~push | Cat(looks).any()),
            tag.way.eq(way),
            tag.star.eq(item.star),
            tag.number.eq(count(m, push, f"pushed{way}", 4)),
            tag.epoch.eq(count(m, push & item.star, f"stars{way}", 2)),
        ]
        asked = item.star & asks.bit_select(tag.epoch, 1)
        m.d.comb += [
            Assume(item.result == ~item.star),
            Assume(item.ordered == asked),
            Assume(Cat(item.sync, item.final) == Mux(item.star, tag.epoch, 0)),
            Assume(dut.pairs[way].as_value() == later(m, tag, LAG, f"tag{way}")),
        ]


def leave(m, dut):
    """Return whether something has left two cycles ago, when its pair is there, and what."""
    left = later(m, dut.o.valid & dut.o.ready, 2, "leaves")
    return left, dut.o.payload.shape()(later(m, dut.o.payload, 2, "item"))


def keep(m, dut, left, item):
    """Claim that what leaves has its own pair, and of cores that are on all, between its stars."""
    pair, star = dut.pair, item.star
    stars = count(m, left & star, "stars", 2)
    m.d.comb += [
        Assert(~dut.overrun),
        Assert(~left | (pair.way < dut.inputs)),
        Assert(~left | ((pair.star == star) & (pair.epoch == stars))),
        Assert(~(left & star) | (Cat(item.sync, item.final) == stars)),
    ]
    for way in range(dut.inputs):
        mine = pair.way == way
        number = count(m, left & (star | mine), f"number{way}", 4)
        m.d.comb += Assert(~(left & mine & dut.enabled[way]) | (pair.number == number))


def sequence(m, dut, left, item):
    """Claim that behind a star that asks for it, items come in the sequence of the cores."""
    asked, newest = Signal(), Signal(2)
    with m.If(left):
        m.d.sync += newest.eq(Mux(item.star, 0, dut.pair.way))
        with m.If(item.star):
            m.d.sync += asked.eq(item.ordered)
    m.d.comb += Assert(~(asked & left & ~item.star) | (dut.pair.way >= newest))


def claim(tree, *args):
    dut, m, free = tree(*args)
    feed(m, free, dut)
    left, item = leave(m, dut)
    keep(m, dut, left, item)
    sequence(m, dut, left, item)
    return m, free


@pytest.mark.parametrize(
    ("inputs", "depth"),
    [
        (2, 13),
        *(pytest.param(*size, marks=pytest.mark.slow) for size in [(1, 16), (2, 16), (3, 16)]),
    ],
)
def test_items_keep_their_pairs_their_order_and_their_stars(tree, inputs, depth):
    """From the first item on it takes 5 cycles to a pair, and 4 more for each level."""
    check(*claim(tree, inputs), depth=depth)


def hurry(tree, *args):
    """Claim that the first item of a core, star or not, leaves in time if the other one is off.

    It may have to wait for its turn.
    """
    dut, m, free = tree(2, *args)
    feed(m, free, dut)
    on = anyconst(m, free, range(2), "on")
    elapsed, arrived = Signal(range(2 * dut.latency)), Signal()
    m.d.comb += Assume(dut.enabled == Mux(on, 2, 1))
    with m.If(Cat(dut.pushes) & dut.enabled):
        m.d.sync += elapsed.eq(1)
    with m.If((elapsed != 0) & ~arrived):
        m.d.sync += [elapsed.eq(elapsed + 1), arrived.eq(dut.o.valid)]
    m.d.comb += Assert(arrived | dut.o.valid | (elapsed <= dut.latency))
    return dut.latency, m, free


def test_nobody_waits_for_a_core_that_is_off(tree):
    latency, *claims = hurry(tree)
    check(*claims, depth=latency + 6)


def test_a_core_that_is_waited_for_is_found(tree):
    waits = Patch(MODULE, "with m.If(~self.enabled[leaf]):", "with m.If(0):").load()
    latency, *claims = hurry(tree, waits)
    with pytest.raises(AssertionError, match=r"test_collection\.py.* does not hold"):
        check(*claims, depth=latency + 6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # a body is looked for too early
        ("flight=PunctuatedMerger.flight, lag=2", "flight=PunctuatedMerger.flight, lag=1"),
        # it comes from another core
        ("taken.eq(merger.taken)", "taken.eq(merger._ready)"),
        # a star has its body from a core that is off
        ("alive & ~any_below(alive)", "1"),
    ],
)
def test_the_claims_can_fail(tree, old, new):
    broken = claim(tree, 2, Patch(MODULE, old, new).load())
    with pytest.raises(AssertionError, match=r"test_collection\.py.* does not hold"):
        check(*broken, depth=14)


def test_a_merger_that_needs_no_room_is_found(tree):
    """By the overrun of the queue behind it."""
    deaf = Patch(MODULE, "merger.room.eq(queue.room)", "merger.room.eq(1)")
    dut, m, free = tree(2, deaf.load())
    feed(m, free, dut)
    m.d.comb += Assert(~dut.overrun)
    with pytest.raises(AssertionError, match=r"test_collection\.py.* does not hold"):
        check(m, free, depth=20)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("barrier.eq(stars.all())", "barrier.eq(stars.any())"),
        ("ordered.eq(Mux(self._barrier, self._shows_ordered, self._ordered))", "ordered.eq(0)"),
    ],
)
def test_the_claims_can_fail_by_a_merger(tree, monkeypatch, old, new):
    merger = Patch("eddyline_hw.splitjoin.merger", old, new).load().PunctuatedMerger
    monkeypatch.setattr(collection, "PunctuatedMerger", merger)
    broken = claim(tree, 2)
    with pytest.raises(AssertionError, match=r"test_collection\.py.* does not hold"):
        check(*broken, depth=14)
