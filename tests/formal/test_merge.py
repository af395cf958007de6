# amaranth: UnusedElaboratable=no
"""Merger and MergeTree: proved for all time by induction over one cycle."""

import pytest
from amaranth import Assert, Assume, Cat
from amaranth.lib import data

from eddyline_hw.stream.merge import Merger, MergeTree
from tests.formal.prove import bench, check
from tests.formal.tags import assume_numbered, count, in_order, places

WAYS = 3
TAGGED = data.StructLayout({"way": 2, "number": 4})  # the largest tree here holds 12 payloads
PUNCTUATED = data.StructLayout({"star": 1, "epoch": 3})  # six stars fit in


def tag(m, dut):
    """Tag each input's payloads and return the numbers entered and left, by input."""
    entered, left = [], []
    for way, port in enumerate(dut.i):
        m.d.comb += Assume(~port.valid | (port.payload.way == way))
        entered.append(assume_numbered(m, port, port.payload.number, name=f"entered_{way}"))
        leaves = dut.o.valid & dut.o.ready & (dut.o.payload.way == way)
        left.append(count(m, leaves, f"left_{way}", 4))
        mine = dut.o.valid & (dut.o.payload.way == way)
        m.d.comb += Assert(~mine | (dut.o.payload.number == left[way]))
    return entered, left


def account(m, held, *, entered, left):
    """Assert that ``held`` is all that is under way, and in order.

    ``held`` has (occupied, payload, inputs whose payloads may be there), output first.
    """
    for occupied, payload, origins in held:
        m.d.comb += Assert(~occupied | Cat(payload.way == way for way in origins).any())
    for way in range(len(entered)):
        slots = [
            (occupied & (payload.way == way), payload.number, 1)
            for occupied, payload, origins in held
            if way in origins
        ]
        in_order(m, slots, left=left[way], entered=entered[way])


def steady(m, merger):
    """Assert what induction must know of a merger's state."""
    one_turn = (merger._turn & (merger._turn - 1)[: merger.ways]) == 0
    m.d.comb += Assert(one_turn)
    if merger.punctuated:
        stars = Cat(port.valid & port.payload.star for port in merger.i)
        m.d.comb += Assert(~merger._barrier | (stars.all() & (merger._turn == 0)))
    else:
        m.d.comb += Assert(~merger._barrier)


def tree(shape, depth):
    """Return a tree of three inputs in two levels, a module around it, and what it holds."""
    dut = MergeTree(shape, inputs=WAYS, fan_in=2, depth=depth)
    module = dut.elaborate(None)
    m, free = bench(dut, submodule=module)
    held = []
    for path, origins in [("", {0, 1, 2}), ("_1", {1, 2})]:
        merger = module.submodules[f"merger{path}"]
        queue = module.submodules[f"queue{path}"]
        steady(m, merger)
        held += [(*place, origins) for place in places(m, queue)]
        held.append((merger.o.valid, merger.o.payload, origins))
    return dut, m, free, held


@pytest.mark.parametrize("ways", [1, 2, WAYS])
def test_merger_neither_loses_nor_doubles_nor_reorders(ways):
    dut = Merger(TAGGED, ways=ways)
    m, free = bench(dut)
    entered, left = tag(m, dut)
    steady(m, dut)
    account(m, [(dut.o.valid, dut.o.payload, range(ways))], entered=entered, left=left)
    check(m, free, depth=6, induction=1)


@pytest.mark.parametrize("depth", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_tree_neither_loses_nor_doubles_nor_reorders(depth):
    dut, m, free, held = tree(TAGGED, depth)
    entered, left = tag(m, dut)
    account(m, held, entered=entered, left=left)
    check(m, free, depth=3, induction=1)


def epochs(m, dut):
    """Let each input write the number of its stars so far into its payloads.

    The same must hold at the output: then no payload has crossed a star, and each round of stars
    became one.
    """
    stars = []
    for way, port in enumerate(dut.i):
        star = port.valid & port.ready & port.payload.star
        stars.append(count(m, star, f"stars_{way}", 3))
        m.d.comb += Assume(~port.valid | (port.payload.epoch == stars[way]))
    star = dut.o.valid & dut.o.ready & dut.o.payload.star
    left = count(m, star, "stars_left", 3)
    m.d.comb += Assert(~dut.o.valid | (dut.o.payload.epoch == left))
    return stars, left


def account_epochs(m, held, *, stars, left):
    """Assert that on the way of each input every payload is between the right stars."""
    for way, entered in enumerate(stars):
        slots = [
            (occupied, payload.epoch, payload.star)
            for occupied, payload, origins in held
            if way in origins
        ]
        in_order(m, slots, left=left, entered=entered)


def test_no_payload_crosses_its_star():
    dut = Merger(PUNCTUATED, ways=WAYS)
    m, free = bench(dut)
    stars, left = epochs(m, dut)
    steady(m, dut)
    account_epochs(m, [(dut.o.valid, dut.o.payload, range(WAYS))], stars=stars, left=left)
    check(m, free, depth=6, induction=1)


def test_no_payload_crosses_its_star_in_a_tree():
    dut, m, free, held = tree(PUNCTUATED, 2)
    stars, left = epochs(m, dut)
    account_epochs(m, held, stars=stars, left=left)
    check(m, free, depth=6, induction=1)


class Doubling(Merger):
    """Seeded bug: with all inputs pending the first is taken, but not told so."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(Cat(port.valid for port in self.i).all()):
            m.d.comb += self.i[0].ready.eq(0)
        return m


def test_the_proof_finds_a_doubled_payload():
    dut = Doubling(TAGGED, ways=WAYS)
    m, free = bench(dut)
    tag(m, dut)
    with pytest.raises(AssertionError, match=r"test_merge\.py.* does not hold"):
        check(m, free, depth=6)


class Impatient(Merger):
    """Seeded bug: a star passes as soon as two inputs show one."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        shown = Cat(port.valid & port.payload.star for port in self.i)
        with m.If(~self._barrier & shown[0] & shown[1] & ~self.o.valid):
            m.d.sync += [self._barrier.eq(1), self._turn.eq(0)]
        return m


def test_the_proof_finds_a_payload_behind_its_star():
    dut = Impatient(PUNCTUATED, ways=WAYS)
    m, free = bench(dut)
    epochs(m, dut)
    with pytest.raises(AssertionError, match="does not hold"):
        check(m, free, depth=8)
