"""Punctuated serializer: what it says of an item holds together, for all time, by induction.

The combiner takes an item with ``final`` for a star, and asks no further.
"""

import pytest
from amaranth import Assert, Cat

from eddyline_hw.splitjoin.serializer import PunctuatedSerializer
from tests.formal.foretell import offer
from tests.formal.prove import bench, check
from tests.hw.handshake.joins import band_plan
from tests.sim.mutants.mutant import Patch


def claim(kind=PunctuatedSerializer, *, lanes):
    dut = kind(band_plan(), lanes=lanes)
    m, free = bench(dut)
    offer(m, dut.i, "i")
    item = dut.item
    m.d.comb += [
        Assert(~(item.star & item.result)),
        Assert(item.star | ~Cat(item.final, item.both, item.sync, item.hidden).any()),
        Assert(~(item.final & (item.sync | item.hidden))),
        Assert(~dut.sends.all() | item.both),
    ]
    return m, free


@pytest.mark.parametrize("lanes", [1, 3])
def test_only_a_star_is_final_and_only_one_goes_to_both_sides(lanes):
    check(*claim(lanes=lanes), depth=6, induction=1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.item.final.eq(closing &", "self.item.final.eq("),
        ("both = closing & flags.both", "both = flags.both"),
        ("is_star = Cat(chosen[1::2], closing).any()", "is_star = chosen[1::2].any()"),
    ],
)
def test_the_proof_finds_a_result_that_passes_for_a_star(old, new):
    broken = Patch("eddyline_hw.splitjoin.serializer", old, new).load().PunctuatedSerializer
    with pytest.raises(AssertionError, match=r"test_serializer\.py.* does not hold"):
        check(*claim(broken, lanes=2), depth=6)
