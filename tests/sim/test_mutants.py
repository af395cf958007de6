# amaranth: UnusedElaboratable=no
"""Every bench is shown able to fail, and for the right reason."""

import gc
import re
import warnings
from pathlib import Path

import pytest
from amaranth import Module, Signal
from amaranth.hdl import UnusedElaboratable
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

import sim.benches.run
from eddyline_hw.stream.buffer import Buffer
from sim.benches.run import BenchFailed
from tests.sim.blocks import Block
from tests.sim.mutants import MUTANTS


class HalfBuffer(wiring.Component):
    """A buffer whose ``valid`` waits for ``ready``: within the cycle, or until it came once."""

    i: In(stream.Signature(12))
    o: Out(stream.Signature(12))

    def __init__(self, *, within_cycle):
        self.within_cycle = within_cycle
        super().__init__()

    def elaborate(self, platform):
        m = Module()

        m.submodules.buffer = buffer = Buffer(12)
        wiring.connect(m, wiring.flipped(self.i), buffer.i)

        seen = Signal()
        with m.If(self.o.ready):
            m.d.sync += seen.eq(1)
        allowed = self.o.ready if self.within_cycle else seen
        m.d.comb += [
            self.o.valid.eq(buffer.o.valid & allowed),
            self.o.payload.eq(buffer.o.payload),
            buffer.o.ready.eq(self.o.ready & allowed),
        ]

        return m


def fail(block, says):
    """Run a bench that has to fail; see that assertions did it and that one ``says`` why."""
    # What stands still takes its time to be called dead.
    most = 5 if block.bench.startswith(("chain", "splitjoin", "collection")) else None
    with pytest.raises(BenchFailed) as failed:
        block.run(max_failures=most)
    failures = failed.value.failures
    assert {one.kind for one in failures} == {"AssertionError"}, failed.value
    assert any(re.search(says, one.message) for one in failures), failed.value


def test_every_patch_applies_and_every_bench_has_a_mutant():
    folder = Path(sim.benches.run.__file__).parent
    benches = {path.stem for path in folder.glob("*.py") if "@cocotb.test" in path.read_text()}
    with warnings.catch_warnings(action="ignore", category=UnusedElaboratable):
        caught = {mutant.make().bench for mutant in MUTANTS}
        gc.collect()
    assert caught == benches


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_bench_catches(mutant):
    fail(mutant.make(), mutant.says)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("within_cycle", "says"),
    [(True, r"o: valid depends on ready"), (False, r"did not come within \d+ cycles")],
)
def test_valid_that_waits_for_ready_is_caught(within_cycle, says):
    block = HalfBuffer(within_cycle=within_cycle)
    fail(Block(block, "fifo", {"capacity": 2, "counted": False}), says)
