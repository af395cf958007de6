"""Bench of the queues: order, level and peak against a deque, and how many fit."""

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.patterns import IDLE, STALL

CAPACITY = parameters()["capacity"]
INTERVAL = parameters().get("interval", 1)  # cycles between payloads
COVERAGE = Coverage("full", "empty", "simultaneous push and pop", "wrap-around")


@cocotb.test()
@cocotb.parametrize(idle=IDLE, stall=STALL)
async def order_is_kept(dut, idle, stall):
    bench = Bench(dut, idle=idle, stall=stall)
    await bench.start()
    count = 6 * CAPACITY
    words = [bench.random.getrandbits(bench.ports["i"].payload.width) for _ in range(count)]
    bench.send("i", words)
    bench.expect("o", words)
    pushes, pops = bench.monitors["i"], bench.monitors["o"]

    def cover():
        COVERAGE.hit("full", pushes.stalled)
        COVERAGE.hit("empty", pushes.count == pops.count > 0)
        COVERAGE.hit("simultaneous push and pop", pushes.transferring and pops.transferring)
        COVERAGE.hit("wrap-around", pushes.count > 2 * CAPACITY)

    bench.watch(cover)
    await bench.finish(limit=40 * count)


@cocotb.test()
async def it_holds_what_it_promises(dut):
    bench = Bench(dut)
    await bench.start()
    bench.sinks["o"].blocked = True
    bench.send("i", range(CAPACITY + 2))
    bench.expect("o", range(CAPACITY + 2))
    await bench.cycles(CAPACITY + 8)
    taken = bench.monitors["i"].count
    assert taken == CAPACITY, f"{taken} payloads fit, not {CAPACITY}"
    bench.sinks["o"].blocked = False
    await bench.finish(limit=4 * CAPACITY)


@cocotb.test()
async def payloads_follow_each_other(dut):
    bench = Bench(dut)
    await bench.start()
    words = [index & 0xFF for index in range(40)]
    bench.send("i", words)
    bench.expect("o", words)
    await bench.until(lambda: bench.monitors["o"].count == 1, limit=20)
    await bench.finish(limit=39 * INTERVAL + 1, quiet=1)


@cocotb.test(skip=not parameters()["counted"])
@cocotb.parametrize(idle=("random", "bursts"), stall=("random", "bursts"))
async def level_and_peak_are_counted(dut, idle, stall):
    bench = Bench(dut, idle=idle, stall=stall)
    await bench.start()
    words = list(range(6 * CAPACITY))
    bench.send("i", words)
    bench.expect("o", words)
    inside, expected, levels = 0, 0, [0]

    def compare():
        nonlocal inside, expected
        level, peak = int(dut.level.value), int(dut.peak.value)
        assert level == expected, f"level is {level}, not {expected}"
        assert peak == max(levels), f"peak is {peak} after levels {levels}"
        levels.append(level)
        expected = inside - int(dut.o__valid.value)  # a cycle later, without what is on offer
        inside += int(dut.i__valid.value and dut.i__ready.value)
        inside -= int(dut.o__valid.value and dut.o__ready.value)

    bench.watch(compare)
    await bench.finish(limit=80 * len(words))


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
