"""Counts that add their halves one after the other."""

import random

from amaranth import Module, Signal
from amaranth.sim import Simulator

from eddyline_hw.tally import tally

LATE = 2  # cycles from a step to the total behind it, besides the edge that takes it


def test_a_total_is_exact_in_every_cycle_and_wraps():
    m = Module()
    total, step = Signal(8), Signal(3)
    tally(m, total, step)
    steps = random.Random(1)

    async def bench(ctx):
        totals = [0] * (LATE + 1)
        for _ in range(600):
            amount = steps.choice([0, 1, 7, steps.randrange(8)])
            ctx.set(step, amount)
            await ctx.tick()
            totals.append((totals[-1] + amount) % 256)
            assert ctx.get(total) == totals[-1 - LATE]
        assert sum(later < earlier for earlier, later in zip(totals, totals[1:], strict=False)) > 2

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
