"""Bench of the SplitJoin operator at full speed: no cycle for nothing."""

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import parameters
from sim.benches.split_run import CORES, ORDERS, Run, warm

LANES = parameters()["lanes"]
INPUTS = {"alternating": "rs", "bursty": "rrrrrrrssss", "one-sided": "r"}
COVERAGE = Coverage("input waits", "window wraps around")


@cocotb.test()
@cocotb.parametrize(
    sides=list(INPUTS),
    order=[one for one in ORDERS if tuple(one[:2]) in (("NONE", 1), ("OUTER", 1), ("INNER", 64))],
)
async def comparators_are_busy_while_there_is_work(dut, sides, order):
    run = Run(dut, coverage=COVERAGE, order=order)
    await run.start()
    words = {"r": {"x": 0}, "s": {"lo": 1, "hi": 1}}
    warm(run.traffic, words["r"], words["s"])
    for number in range(480):
        side = INPUTS[sides][number % len(INPUTS[sides])]
        run.traffic.tuple(side, words[side])
    run.bench.send("i", run.traffic.messages)
    taken = run.bench.monitors["i"]
    await run.bench.until(lambda: taken.count > 180, limit=4000, what="the first tuples")
    for core in range(CORES):
        run.bench.set("selected", core)
        await run.bench.cycles(8)
        names = ("busy", "comparisons")
        before, cycle = [run.bench.get(name) for name in names], run.bench.cycle
        await run.bench.cycles(300)
        busy, compared = (run.bench.get(n) - old for n, old in zip(names, before, strict=True))
        cycles = run.bench.cycle - cycle
        assert busy >= 0.99 * cycles, f"core {core} was busy in {busy} of {cycles} cycles"
        # With inner order, nine tuples of R take six rows, of which one is read twice.
        assert compared >= 0.99 * 9 / 12 * LANES * cycles, (
            f"core {core} made {compared} comparisons"
        )
    assert taken.count < len(run.traffic.messages), "the input ran dry"


@cocotb.test()
@cocotb.parametrize(
    sides=list(INPUTS),
    order=ORDERS,
)
async def a_result_leaves_in_every_cycle_when_all_match(dut, sides, order):
    run = Run(dut, coverage=COVERAGE, order=order)
    await run.start()
    words = {"r": {"x": 0}, "s": {"lo": 0, "hi": 0}}
    warm(run.traffic, words["r"], words["s"])
    for number in range(60):
        side = INPUTS[sides][number % len(INPUTS[sides])]
        run.traffic.tuple(side, words[side])
    run.traffic.star(flush=True)
    left = []
    run.bench.monitors["o"].add_callback(lambda item: left.append((run.bench.cycle, item["star"])))
    await run.answered()
    await run.finish()
    measured = left[len(left) // 3 : -10]
    took = measured[-1][0] - measured[0][0] + 1
    stars = sum(star for _, star in measured)
    assert took == len(measured), f"{len(measured)} items with {stars} stars took {took} cycles"


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
