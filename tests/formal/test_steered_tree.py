# amaranth: UnusedElaboratable=no
"""Steered tree of three inputs in two levels, any of them off: by induction, or bounded as said."""

import pytest
from amaranth import Assert, Assume, Cat, Signal
from amaranth.lib import data

from eddyline_hw.stream.merge import MergeTree
from tests.formal.prove import anyconst, bench, check
from tests.formal.tags import count, places
from tests.formal.test_steered import SEQUENCE, sequence
from tests.sim.mutants import Patch

WAYS = 3
TAGGED = data.StructLayout({"star": 1, "ordered": 1, "way": 2, "number": 4})
EPOCHS = data.StructLayout({"star": 1, "ordered": 1, "epoch": 3})  # six stars fit in
PATHS = {"": ({0}, {1, 2}), "_1": ({1}, {2})}  # of mergers, and inputs behind their branches


def tree(shape, kind=MergeTree):
    """Return a tree, a module around it, free inputs, inputs that are on, and what it holds.

    Nothing comes before the mask has reached the mergers.
    """
    dut = kind(shape, inputs=WAYS, fan_in=2, steered=True)
    module = dut.elaborate(None)
    m, free = bench(dut, submodule=module)
    on, later = anyconst(m, free, WAYS, "on"), Signal()
    m.d.sync += later.eq(1)
    m.d.comb += [Assume(dut.enabled == on), Assume(on != 0)]
    m.d.comb += [Assume(~port.valid | later) for port in dut.i]
    held = []
    for path, branches in PATHS.items():
        merger, queue = (module.submodules[f"{kind}{path}"] for kind in ("merger", "queue"))
        known = Cat(Cat(on[way] for way in branch).any() for branch in branches)
        stars = Cat(port.valid & port.payload.star for port in merger.i) | ~known
        if kind is not MergeTree:
            continue  # only the claim itself is to find what is wrong
        m.d.comb += [
            Assert(merger.enabled == Cat(bit & later for bit in known)),
            Assert((merger._turn & (merger._turn - 1)[:2]) == 0),
            Assert(~merger._barrier | (stars.all() & (merger._turn == 0))),
        ]
        origins = set.union(*branches)
        held += [(*place, origins) for place in places(m, queue)]
        held.append((merger.o.valid, merger.o.payload, origins))
    return dut, m, free, on, held


def account(m, held, way, *, mine, star, left, entered, on):
    """Assert that payloads of an input that is on are numbered from the output back to it."""
    expected = left
    for occupied, payload, origins in held:
        if way in origins:
            here = occupied & mine(payload)
            number = payload.epoch if star else payload.number
            m.d.comb += Assert(~(on & here) | (number == expected))
            expected = (expected + (here & (payload.star if star else 1)))[: len(left)]
    m.d.comb += Assert(~on | (expected == entered))


def test_tree_neither_loses_nor_doubles_nor_reorders():
    """Six cycles from reset, and induction over two."""
    dut, m, free, on, held = tree(TAGGED)
    for occupied, payload, origins in held:
        known = Cat((payload.way == way) & on[way] for way in origins).any()
        m.d.comb += Assert(~occupied | known)
    for way, port in enumerate(dut.i):

        def mine(payload, way=way):
            return ~payload.star & (payload.way == way)

        entered = count(m, port.valid & port.ready & mine(port.payload), f"entered_{way}", 4)
        left = count(m, dut.o.valid & dut.o.ready & mine(dut.o.payload), f"left_{way}", 4)
        fresh = port.payload.star | (port.payload.number == entered)
        m.d.comb += Assume(~port.valid | ((port.payload.way == way) & fresh))
        account(m, held, way, mine=mine, star=False, left=left, entered=entered, on=on[way])
    check(m, free, depth=6, induction=2)


def epochs(m, dut, on):
    """Assert that stars leave numbered as they entered; return how many have, either way."""
    left = count(m, dut.o.valid & dut.o.ready & dut.o.payload.star, "left", 3)
    m.d.comb += Assert(~dut.o.valid | (dut.o.payload.epoch == left))
    stars = []
    for way, port in enumerate(dut.i):
        stars.append(count(m, port.valid & port.ready & port.payload.star, f"stars_{way}", 3))
        m.d.comb += Assume(~(port.valid & on[way]) | (port.payload.epoch == stars[way]))
    return stars, left


def test_no_result_crosses_a_star_and_stars_are_monotone():
    """Six cycles from reset, and induction over two."""
    dut, m, free, on, held = tree(EPOCHS)
    stars, left = epochs(m, dut, on)
    for way, entered in enumerate(stars):
        account(m, held, way, mine=lambda _: 1, star=True, left=left, entered=entered, on=on[way])
    check(m, free, depth=6, induction=2)


def test_the_proof_finds_a_result_behind_its_star():
    hasty = Patch("eddyline_hw.stream.merge", "barrier.eq(stars.all())", "barrier.eq(stars.any())")
    dut, m, free, on, _ = tree(EPOCHS, hasty.load().MergeTree)
    epochs(m, dut, on)
    with pytest.raises(AssertionError, match=r"test_steered_tree\.py.* does not hold"):
        check(m, free, depth=12)


def agreed(m, free, dut):
    """Let stars of all inputs ask for the same, round by round: anything for eight rounds."""
    asked = anyconst(m, free, 8, "asked")
    for way, port in enumerate(dut.i):
        star = port.valid & port.payload.star
        stars = count(m, star & port.ready, f"stars_{way}", 3)
        m.d.comb += [
            Assume(~port.valid | (port.payload.way == way)),
            Assume(~star | (port.payload.ordered == asked.bit_select(stars, 1))),
        ]


@pytest.mark.slow
def test_results_come_in_sequence_if_a_star_asked_for_it():
    """Twenty cycles from reset: a star takes six to the output, and results behind it as many."""
    dut, m, free, _, _ = tree(SEQUENCE)
    agreed(m, free, dut)
    sequence(m, dut)
    check(m, free, depth=20)


@pytest.mark.slow
def test_the_proof_finds_a_result_out_of_sequence():
    """Within the depth of the proof above."""
    fair = Patch(
        "eddyline_hw.stream.merge", "ordered.eq(self.shape(merged).ordered)", "ordered.eq(0)"
    )
    dut, m, free, _, _ = tree(SEQUENCE, fair.load().MergeTree)
    agreed(m, free, dut)
    sequence(m, dut)
    with pytest.raises(AssertionError, match=r"test_steered\.py.* does not hold"):
        check(m, free, depth=20)
