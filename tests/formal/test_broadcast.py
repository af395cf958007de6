# amaranth: UnusedElaboratable=no
"""Fork and BroadcastTree: proved for all time by induction over one cycle."""

import pytest
from amaranth import Assert

from eddyline_hw.stream.broadcast import BroadcastTree, Fork
from tests.formal.prove import bench, check
from tests.formal.tags import assume_numbered, count, in_order, places

BITS = 4  # a branch of a tree with two levels holds four payloads


def numbers(m, dut):
    """Let every output expect all numbers; return how many entered, and left by each output."""
    entered = assume_numbered(m, dut.i, dut.i.payload, name="entered")
    left = []
    for way, port in enumerate(dut.o):
        left.append(count(m, port.valid & port.ready, f"left_{way}", BITS))
        m.d.comb += Assert(~port.valid | (port.payload == left[way]))
    return entered, left


def sound(m, fork, source):
    """Assert that copies are only handed out of an offer that still waits for someone."""
    m.d.comb += [Assert(~fork._served.all()), Assert((fork._served == 0) | source.valid)]


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_fork_gives_each_payload_to_each_output_once(ways):
    dut = Fork(BITS, ways=ways)
    m, free = bench(dut)
    entered, left = numbers(m, dut)
    sound(m, dut, dut.i)
    for way in range(ways):
        m.d.comb += Assert(left[way] == (entered + dut._served[way])[:BITS])
    check(m, free, depth=8, induction=1)


def test_tree_gives_each_payload_to_each_output_once():
    dut = BroadcastTree(BITS, outputs=3, fan_out=2)
    module = dut.elaborate(None)
    m, free = bench(dut, submodule=module)
    entered, left = numbers(m, dut)

    root = module.submodules.fork
    sound(m, root, dut.i)
    outputs = iter(left)
    for branch, leaves in [(0, 1), (1, 2)]:
        stage = module.submodules[f"stage_{branch}"]
        fork = module.submodules[f"fork_{branch}"]
        sound(m, fork, stage.o)
        for leaf in range(leaves):
            slots = [*places(m, module.submodules[f"stage_{branch}_{leaf}"])]
            (offered, offer), *rest = places(m, stage)
            slots += [(offered & ~fork._served[leaf], offer), *rest]
            handed = (entered + root._served[branch])[:BITS]
            in_order(m, [(*slot, 1) for slot in slots], left=next(outputs), entered=handed)
    check(m, free, depth=12, induction=1)


class Forgetful(Fork):
    """Seeded bug: an output that was served early is served again."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.sync += self._served.eq(0)
        return m


def test_the_proof_finds_a_second_copy():
    dut = Forgetful(BITS, ways=2)
    m, free = bench(dut)
    numbers(m, dut)
    with pytest.raises(AssertionError, match=r"test_broadcast\.py.* does not hold"):
        check(m, free, depth=6)


class Hasty(Fork):
    """Seeded bug: the payload goes once any output has it."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(self.o[0].ready | self.o[1].ready)
        return m


def test_the_proof_finds_a_missing_copy():
    dut = Hasty(BITS, ways=2)
    m, free = bench(dut)
    numbers(m, dut)
    with pytest.raises(AssertionError, match="does not hold"):
        check(m, free, depth=6)
