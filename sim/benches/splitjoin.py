"""Bench of the whole SplitJoin operator: every pair comes, before its star and in order.

With stalling queues inside, or with a core that hangs and is switched off.
"""

import random

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.split_run import HUNG, ORDERS, SETTINGS, STALLS, Run, in_sequence

COVERAGE = Coverage(
    "stalled star",
    "window wraps around",
    "window smaller than the cores",
    "window that cores do not divide",
    "star behind no pair",
    "order changes",
    *([] if HUNG else ["input waits"]),
)


def fill(traffic, random, order, count):
    """Let some tuples arrive that match more or less often, with stars among them."""
    share, values = random.choice((0.0, 0.2, 0.5, 0.5, 0.8, 1.0)), random.choice((1, 2, 5, 40))
    for _ in range(count):
        traffic.random_tuple(random, values=values, r_share=share)
        if random.random() < 0.05:
            traffic.star()
        if random.random() < 0.1:
            share = random.choice((0.0, 0.5, 0.5, 1.0))


@cocotb.test()
@cocotb.parametrize(
    order=ORDERS,
    patterns=(("never", "never"), ("random", "random"), ("bursts", "on demand")),
)
async def every_pair_comes_before_its_star(dut, order, patterns):
    idle, stall = patterns
    setting = random.choice(SETTINGS)
    run = Run(dut, coverage=COVERAGE, order=order, setting=setting, idle=idle, stall=stall)
    await run.start()
    for _ in range(3):
        fill(run.traffic, random, order, random.randrange(30))
        run.traffic.star(flush=True)
        await run.answered(exact=in_sequence(order))
        await run.change(setting=random.choice(SETTINGS))
    await run.finish()


@cocotb.test()
@cocotb.parametrize(stall=("never", "bursts"))
async def order_changes_between_stars(dut, stall):
    run = Run(
        dut, coverage=COVERAGE, order=ORDERS[0], setting=SETTINGS[1], idle="random", stall=stall
    )
    await run.start()
    for order in random.sample(ORDERS * 2, len(ORDERS) * 2):
        await run.change(order=order)
        fill(run.traffic, random, order, 12)
        run.traffic.star(flush=random.random() < 0.3)
        await run.answered(exact=in_sequence(order))
    await run.finish()


@cocotb.test()
@cocotb.parametrize(order=ORDERS)
async def the_first_tuples_meet_and_a_flush_of_nothing_is_answered(dut, order):
    run = Run(dut, coverage=COVERAGE, order=order)
    await run.start()
    traffic = run.traffic
    traffic.star()
    traffic.star(flush=True)
    for side in "rsr":
        traffic.tuple(side, {"x": 1} if side == "r" else {"lo": 1, "hi": 1})
    traffic.star(flush=True)
    traffic.tuple("s", {"lo": 0, "hi": 9})
    traffic.star(flush=True)
    traffic.tuple("r", {"x": 1})
    traffic.star(flush=True)
    await run.answered(exact=in_sequence(order))
    await run.finish()


@cocotb.test(skip=bool(HUNG))
@cocotb.parametrize(
    percent=(0, 10, 50, 90, 100), stall=("bursts",) if STALLS else ("never", "droughts")
)
async def nothing_is_lost_however_much_matches(dut, percent, stall):
    order = random.choice(ORDERS)
    # Slow queues inside need not be filled from a large window.
    run = Run(dut, coverage=COVERAGE, order=order, setting=SETTINGS[STALLS], stall=stall)
    await run.start()
    for _ in range(60 if STALLS else 120):
        if random.random() < 0.5:
            run.traffic.tuple("r", {"x": random.randrange(100)})
        else:
            run.traffic.tuple("s", {"lo": 100 - percent, "hi": 99})
    run.traffic.star(flush=True)
    await run.answered(exact=in_sequence(order))
    await run.finish()


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
