"""The precision follows the load."""

from eddyline_hw.splitjoin.adaptive import AdaptivePrecision
from tests.hw.bench import simulate

BUSY, EASY = (20, 8), (9, 0)


def steps(load, *, open_until=0):
    """Return the precision after each period; of 32 cycles, so many are offered and wait.

    Inner order is told as a negative number of intervals, outer order as a number of arrivals.
    """
    dut = AdaptivePrecision(period=32, coarsest_log=2, most=8)
    seen = []

    def look(ctx):
        inner, log = ctx.get(dut.inner), ctx.get(dut.log)
        seen.append(-(1 << log) if inner else ctx.get(dut.interval))

    async def drive(ctx):
        for period, (offered, waits) in enumerate(load):
            ctx.set(dut.open, period < open_until)
            for cycle in range(32):
                ctx.set(dut.offered, cycle < offered)
                ctx.set(dut.waits, cycle < waits)
                await ctx.tick()
            look(ctx)
        for _ in range(3):
            await ctx.tick()
        look(ctx)

    simulate(dut, drive)
    return seen[1:]


def test_it_is_coarser_under_load_up_to_a_limit():
    assert steps([BUSY] * 8) == [-2, -4, 1, 2, 4, 8, 8, 8]


def test_it_is_finer_when_nothing_waits():
    assert steps([BUSY] * 5 + [EASY] * 6) == [-2, -4, 1, 2, 4, 2, 1, -4, -2, -1, -1]


def test_it_stays_under_a_little_load_and_without_any():
    assert steps([BUSY, BUSY, (32, 3), (0, 0)]) == [-2, -4, -4, -4]
    assert steps([BUSY] * 4 + [(32, 3), (0, 0)]) == [-2, -4, 1, 2, 2, 2]


def test_a_group_is_not_cut_short():
    load = [BUSY] * 4 + [EASY] * 5
    assert steps(load, open_until=8) == [-2, -4, 1, 2, 1, 1, 1, -4, -2]
