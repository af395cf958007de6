"""Bench of the queue between two clocks, with either side the faster one."""

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench
from sim.benches.patterns import IDLE

COVERAGE = Coverage("full", "empty", "slow reader", "slow writer")


@cocotb.test()
@cocotb.parametrize(
    idle=IDLE,
    stall=("never", "random", "bursts", "on demand"),
    period=(3, 10, 33),
)
async def order_is_kept(dut, idle, stall, period):
    bench = Bench(dut, idle=idle, stall=stall, clocks={"o": "merge"}, periods={"merge": period})
    await bench.start()
    words = [bench.random.getrandbits(8) for _ in range(60)]
    bench.send("i", words)
    bench.expect("o", words)
    pushes, pops = bench.monitors["i"], bench.monitors["o"]

    def cover():
        COVERAGE.hit("full", pushes.stalled)
        COVERAGE.hit("empty", pushes.count == pops.count > 0)
        COVERAGE.hit("slow reader", period > 10)
        COVERAGE.hit("slow writer", period < 10)

    bench.watch(cover)
    await bench.finish(limit=80 * len(words), quiet=60)


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
