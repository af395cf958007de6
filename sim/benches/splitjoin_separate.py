"""Bench of the SplitJoin operator without a combiner: each side's pairs come on their own."""

import random

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.split_run import ORDERS, SETTINGS, Run, in_sequence

COVERAGE = Coverage(
    "stalled star", "window wraps around", "star behind no pair", "input waits", "order changes"
)


def fill(traffic, count):
    values, share = random.choice((1, 2, 5)), random.choice((0.2, 0.5, 1.0))
    for _ in range(count):
        traffic.random_tuple(random, values=values, r_share=share)
        if random.random() < 0.05:
            traffic.star()


@cocotb.test()
@cocotb.parametrize(
    order=ORDERS,
    patterns=(
        ("never", "never", "never"),
        ("random", "random", "bursts"),
        ("never", "droughts", "never"),
        ("never", "never", "droughts"),
    ),
)
async def every_pair_comes_on_the_stream_of_its_arrival(dut, order, patterns):
    idle, *stalls = patterns
    run = Run(dut, coverage=COVERAGE, order=order, setting=random.choice(SETTINGS), idle=idle)
    await run.start()
    for name, stall in zip(("o_r", "o_s"), stalls, strict=True):
        run.bench.sinks[name].set_stall(stall)
    for _ in range(2):
        fill(run.traffic, random.randrange(20, 90))
        run.traffic.star(flush=True)
        await run.answered(exact=in_sequence(order))
        await run.change(setting=random.choice(SETTINGS))
    await run.finish()


@cocotb.test()
async def order_changes_between_stars(dut):
    run = Run(dut, coverage=COVERAGE, order=ORDERS[0], setting=SETTINGS[1], stall="random")
    await run.start()
    for order in random.sample(ORDERS * 2, len(ORDERS) * 2):
        await run.change(order=order)
        fill(run.traffic, 12)
        run.traffic.star(flush=random.random() < 0.3)
        await run.answered()
    await run.finish()


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
