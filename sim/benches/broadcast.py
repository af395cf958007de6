"""Bench of the broadcast tree: every output has everything, in order, at full rate."""

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.patterns import IDLE, STALL

OUTPUTS = parameters()["outputs"]
LATENCY = parameters()["latency"]
NAMES = [f"o__{index}" for index in range(OUTPUTS)]
COVERAGE = Coverage("one output stalls alone", "all outputs take at once", "full")


@cocotb.test()
@cocotb.parametrize(idle=IDLE, stall=STALL)
async def every_output_has_everything(dut, idle, stall):
    bench = Bench(dut, idle=idle, stall=stall)
    await bench.start()
    width = bench.ports["i"].payload.width
    words = [bench.random.getrandbits(width) for _ in range(40)]
    bench.send("i", words)
    for name in NAMES:
        bench.expect(name, words)
    outputs = [bench.monitors[name] for name in NAMES]

    def cover():
        stalled = sum(monitor.stalled for monitor in outputs)
        moving = sum(monitor.transferring for monitor in outputs)
        COVERAGE.hit("one output stalls alone", stalled == 1 and moving == OUTPUTS - 1)
        COVERAGE.hit("all outputs take at once", moving == OUTPUTS)
        COVERAGE.hit("full", bench.monitors["i"].stalled)

    bench.watch(cover)
    await bench.finish(limit=60 * len(words))


@cocotb.test()
async def latency_and_rate_are_as_promised(dut):
    bench = Bench(dut)
    await bench.start()
    words = list(range(30))
    for name in NAMES:
        bench.expect(name, words)
    bench.send("i", words)
    await bench.until(lambda: bench.monitors["i"].count, limit=10, what="the first payload")
    entered = bench.cycle
    await bench.until(lambda: bench.monitors[NAMES[-1]].count, limit=40, what="the first payload")
    assert bench.cycle - entered == LATENCY, f"latency is {bench.cycle - entered}, not {LATENCY}"
    await bench.finish(limit=len(words), quiet=1)


@cocotb.test()
@cocotb.parametrize(slow=(0, OUTPUTS - 1))
async def a_stalled_output_loses_nothing(dut, slow):
    bench = Bench(dut)
    await bench.start()
    words = list(range(20))
    for name in NAMES:
        bench.expect(name, words)
    bench.sinks[NAMES[slow]].blocked = True
    bench.send("i", words)
    await bench.cycles(30)
    counts = [bench.monitors[name].count for name in NAMES]
    assert counts[slow] == 0
    others = counts[:slow] + counts[slow + 1 :]
    assert min(others) >= 2, f"a stalled output held up the others at once: {counts}"
    bench.sinks[NAMES[slow]].blocked = False
    await bench.finish(limit=60)


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
