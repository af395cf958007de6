"""The interval of stars follows the load."""

from eddyline_hw.splitjoin.adaptive import AdaptiveInterval
from tests.hw.bench import simulate


def intervals(load):
    """Return the interval after each period; of 32 cycles, so many are offered and wait."""
    dut = AdaptiveInterval(period=32, most=8)
    seen = []

    async def drive(ctx):
        for offered, waits in load:
            for cycle in range(32):
                ctx.set(dut.offered, cycle < offered)
                ctx.set(dut.waits, cycle < waits)
                await ctx.tick()
            seen.append(ctx.get(dut.interval))
        for _ in range(3):
            await ctx.tick()
        seen.append(ctx.get(dut.interval))

    simulate(dut, drive)
    return seen[1:]


def test_it_doubles_under_load_up_to_a_limit():
    assert intervals([(20, 8)] * 5) == [2, 4, 8, 8, 8]


def test_it_is_halved_when_nothing_waits():
    assert intervals([(32, 8), (32, 8), (9, 0), (9, 0), (9, 0)]) == [2, 4, 2, 1, 1]


def test_it_stays_under_a_little_load_and_without_any():
    assert intervals([(32, 8), (32, 3), (0, 0)]) == [2, 2, 2]
