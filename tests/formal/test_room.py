"""Queues that tell early that they are full, and registers that tell what they are going to hold.

Proved for all time, by induction.
"""

from itertools import product

import pytest
from amaranth import Assert

from eddyline_hw.stream.preview import Preview
from eddyline_hw.stream.room import RoomQueue
from tests.formal.foretell import promise
from tests.formal.prove import bench, check
from tests.formal.room import BITS, held, numbers, seen
from tests.formal.tags import assume_numbered, count, in_order
from tests.sim.mutants.mutant import Patch

SIZES = list(product(range(4), [8, 16]))  # flight and depth
FAST = [(0, 8), (3, 8)]


@pytest.mark.parametrize(
    ("flight", "depth"),
    [size if size in FAST else pytest.param(*size, marks=pytest.mark.slow) for size in SIZES],
)
def test_room_is_told_in_time(flight, depth):
    dut = RoomQueue(BITS, depth=depth, flight=flight)
    m, free = bench(dut)
    slots = [(occupied, payload, 1) for occupied, payload in held(m, dut, seen(m, dut))]
    entered, left = numbers(m, dut, dut.payload)
    in_order(m, slots, left=left, entered=entered)
    check(m, free, depth=6, induction=1)


@pytest.mark.parametrize("flight", [0, 3])
def test_the_proof_finds_room_that_is_told_too_long(monkeypatch, flight):
    """By three payloads: the queue itself has room for two more, but not one of tickets."""
    monkeypatch.setattr(RoomQueue, "BEHIND", RoomQueue.BEHIND - 3)
    dut = RoomQueue(BITS, depth=8, flight=flight)
    m, free = bench(dut)
    seen(m, dut)
    numbers(m, dut, dut.payload)
    with pytest.raises(AssertionError, match=r"/room\.py.* does not hold"):
        check(m, free, depth=14)


def foreseen(dut):
    """Claim that payloads come out in order and are told of a cycle ahead."""
    m, free = bench(dut)
    promise(m, dut.o, "o")
    entered = assume_numbered(m, dut.i, dut.i.payload, name="entered")
    left = count(m, dut.o.valid & dut.o.ready, "left", BITS)
    m.d.comb += Assert(~dut.o.valid | (dut.o.payload == left))
    return m, free, entered, left


def test_preview_tells_what_comes_and_neither_loses_nor_doubles_nor_reorders():
    dut = Preview(BITS)
    m, free, entered, left = foreseen(dut)
    in_order(m, [(dut.o.valid, dut.o.payload, 1)], left=left, entered=entered)
    check(m, free, depth=6, induction=2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.o.coming.eq(~self.i.ready | self.i.valid)", "self.o.coming.eq(self.i.valid)"),
        ("Mux(self.i.ready, self.o.behind, payload)", "self.i.payload"),
        ("payload.eq(self.o.ahead)", "payload.eq(self.i.payload)"),
    ],
)
def test_the_proof_finds_a_wrong_prophecy(old, new):
    dut = Patch("eddyline_hw.stream.preview", old, new).load().Preview(BITS)
    m, free, *_ = foreseen(dut)
    with pytest.raises(AssertionError, match=r"(foretell|test_room)\.py.* does not hold"):
        check(m, free, depth=6)
