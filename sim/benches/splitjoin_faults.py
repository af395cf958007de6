"""Bench of SplitJoin cores that are switched off: the others go on, and nothing else is missing."""

import random

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.split_run import CORES, ORDERS, SETTINGS, Run, in_sequence

COVERAGE = Coverage("core switched off", "core cut off", "input waits", "stalled star")


@cocotb.test()
@cocotb.parametrize(order=ORDERS, stall=("never", "random"))
async def only_the_pairs_of_a_core_that_is_off_are_missing(dut, order, stall):
    run = Run(dut, coverage=COVERAGE, order=order, setting=SETTINGS[1], stall=stall)
    await run.start()
    for off in ((), *random.choice((((1,), (0, 1)), ((2,),), ((0,), (0, 2))))):
        if off:
            await run.change(disabled=off)
        for _ in range(20):
            run.traffic.random_tuple(random, values=2)
        run.traffic.star(flush=random.random() < 0.3)
        await run.answered(exact=in_sequence(order))
    await run.finish()


@cocotb.test()
@cocotb.parametrize(order=ORDERS, patterns=(("never", "never"), ("random", "random")))
async def a_core_that_goes_off_under_way_takes_only_its_own_pairs_along(dut, order, patterns):
    # Of pairs with its tuples, those that come are right; behind the next star there are none.
    idle, stall = patterns
    run = Run(
        dut, coverage=COVERAGE, order=order, setting=random.choice(SETTINGS), idle=idle, stall=stall
    )
    await run.start()
    traffic, exact = run.traffic, in_sequence(order)
    off = random.sample(range(CORES), random.choice((1, 1, 2)))

    def arrive(count):
        for _ in range(count):
            traffic.random_tuple(random, values=3)
        traffic.star(flush=random.random() < 0.3)

    arrive(random.randrange(40))
    await run.answered(exact=exact)
    traffic.doubtful = set(off)
    arrive(90)
    taken = run.bench.monitors["i"]
    first = taken.count
    run.send(exact=exact)
    for core in off:
        first += random.randint(1, 40)
        await run.bench.until(lambda first=first: taken.count >= first, limit=20_000)
        run.cut_off(core)
    await run.settled(90)
    traffic.doubtful = set()
    traffic.off |= set(off)
    arrive(40)
    await run.answered(exact=exact)
    await run.finish()


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
