"""The precision follows the load."""

from collections import Counter

from eddyline_hw.splitjoin.adaptive import AdaptivePrecision
from tests.hw.bench import simulate

BUSY, EASY, SOME = (20, 8), (9, 0), (32, 3)
PERIOD = 32


def looked_at(ctx, dut):
    """Return the precision: minus the intervals of inner order, or arrivals of outer order."""
    return -(1 << ctx.get(dut.log)) if ctx.get(dut.inner) else ctx.get(dut.interval)


def steps(load):
    """Return the precision after each period, in which so many cycles are offered and wait.

    Results are in the way while something waits, unless a load says for how many cycles they are.
    """
    dut = AdaptivePrecision(period=PERIOD, coarsest_log=2, most=8, patience=4)
    seen = []

    async def drive(ctx):
        for offered, waits, *held in load:
            for cycle in range(PERIOD):
                ctx.set(dut.held, cycle < (held[0] if held else waits))
                ctx.set(dut.offered, cycle < offered)
                ctx.set(dut.waits, cycle < waits)
                await ctx.tick()
            seen.append(looked_at(ctx, dut))
        for _ in range(3):
            await ctx.tick()
        seen.append(looked_at(ctx, dut))

    simulate(dut, drive)
    return seen[1:]


def test_it_is_coarser_under_load_up_to_a_limit():
    assert steps([BUSY] * 8) == [-2, -4, 1, 2, 4, 8, 8, 8]


def test_groups_stay_small_where_results_are_in_nobodys_way():
    scans = (*BUSY, 0)
    assert steps([scans] * 6) == [-2, -4, 1, 1, 1, 1]
    assert steps([BUSY] * 4 + [scans] * 3) == [-2, -4, 1, 2, 2, 2, 2]
    assert steps([scans] * 4 + [(*BUSY, 1), scans, scans]) == [-2, -4, 1, 1, 2, 2, 2]


def test_it_is_finer_when_nothing_waits():
    assert steps([BUSY] * 5 + [EASY] * 6) == [-2, -4, 1, 2, 4, 2, 1, -4, -2, -1, -1]


def test_it_stays_under_a_little_load_and_without_any():
    assert steps([BUSY, BUSY, SOME, (0, 0)]) == [-2, -4, -4, -4]
    assert steps([BUSY] * 4 + [SOME, (0, 0)]) == [-2, -4, 1, 2, 2, 2]


def test_a_step_that_was_taken_back_is_barred_for_longer_each_time():
    load = [BUSY] * 4 + [EASY, BUSY]
    right = [-2, -4, 1, 2, 1, 2]
    for quiet in (2, 4, 4):  # four are the most
        load += [EASY] * quiet + [BUSY]
        right += [2] * (quiet - 1) + [1, 2]
    assert steps([*load, (0, 0)])[: len(right)] == right
    # What is coarser is free.
    assert steps([*load, BUSY, BUSY, *[EASY] * 6])[len(right) :] == [4, 8, 4, 2, 2, 2, 2, 1]


def test_a_period_with_waits_begins_the_patience_anew():
    load = [BUSY] * 4 + [EASY, BUSY, EASY, SOME, EASY, (0, 0), EASY, (0, 0)]
    assert steps(load)[4:] == [1, 2, 2, 2, 2, 2, 1, 1]


def test_nothing_is_barred_any_more_when_the_load_has_fallen():
    load = [BUSY] * 4 + [EASY, BUSY]
    assert steps(load + [EASY] * 13)[5:] == [2, 2, 1, 1, -4, -4, -2, -2, -1, *[-1] * 5]
    fresh = load + [EASY] * 12 + [BUSY] * 4
    assert steps(fresh + [EASY] * 5)[-5:] == [1, -4, -2, -2, -1]


TAKES = (12, 7, 5, 4, 3, 2, 2)  # cycles for a tuple, from the finest step on


def paced(patience, paces, *, hidden=10):
    """Return, for each pace, how many cycles were spent at each step, and how many had to wait.

    A tuple comes every ``pace`` cycles, and a queue in front hides for a while that they are too
    many. What is counted is the second half of the time.
    """
    dut = AdaptivePrecision(period=PERIOD, coarsest_log=1, most=16, patience=patience)
    told = []

    async def drive(ctx):
        queue = owed = served = 0
        for pace, periods in paces:
            seen, waited = Counter(), 0
            for cycle in range(PERIOD * periods):
                groups = 1 + ctx.get(dut.interval).bit_length()
                step = ctx.get(dut.log) if ctx.get(dut.inner) else groups
                owed += cycle % pace == 0
                served += 1
                if queue and served >= TAKES[step]:
                    queue, served = queue - 1, 0
                offered, waits = bool(owed), bool(owed) and queue == hidden
                ctx.set(dut.offered, offered)
                ctx.set(dut.waits, waits)
                ctx.set(dut.held, bool(queue))
                if offered and not waits:
                    queue, owed = queue + 1, owed - 1
                if cycle >= PERIOD * periods // 2:
                    seen[step] += 1
                    waited += waits
                await ctx.tick()
            told.append((seen, waited))

    simulate(dut, drive, limit=PERIOD * sum(periods for _, periods in paces) + 100)
    return told


def test_it_settles_at_the_finest_step_that_sustains_the_input():
    (middle, waited), (slow, _), (fast, _) = paced(64, [(8, 800), (20, 300), (6, 800)])
    assert middle[1] > 0.8 * middle.total()
    assert waited < 0.02 * middle.total()
    assert slow[0] == slow.total()
    assert fast[2] > 0.8 * fast.total()


def test_without_patience_it_swings():
    ((seen, waited),) = paced(1, [(8, 800)])
    assert seen[1] < 0.3 * seen.total()
    assert waited > 0.1 * seen.total()
