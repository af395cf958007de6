"""Bench of the SplitJoin operator that chooses its precision: stars change, pairs do not."""

import random
from collections import Counter
from itertools import groupby

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import parameters
from sim.benches.parts import ANSWER, Parts
from sim.benches.split_run import ORDERS, SETTINGS, Run

PERIOD, MOST, COARSEST_LOG = (parameters()[name] for name in ("period", "most", "coarsest_log"))
STEPS = COARSEST_LOG + MOST.bit_length()  # from the finest precision to the coarsest
PACE = 7  # cycles: too few for ten stars, and enough for five
(STRICT,) = (one for one in ORDERS if tuple(one[:2]) == ("OUTER", 1))
COVERAGE = Coverage(
    "input waits",
    "stalled star",
    "interval grows",
    "interval shrinks",
    "inner order, strict",
    "inner order, relaxed",
)


class Diary:
    """When messages came and stars left, and what the interval was."""

    def __init__(self, bench):
        self.came, self.left = [], []
        self.intervals = []  # by cycle
        bench.monitors["i"].add_callback(lambda _: self.came.append(len(self.intervals)))
        bench.monitors["o"].add_callback(self._leave)
        bench.watch(lambda: self.intervals.append(bench.get("interval")))

    def _leave(self, item):
        if item["star"] and (item["final"] or item["sync"]):
            self.left.append(len(self.intervals))


class Whole(Parts):
    """What came, without the stars that close a part of an arrival; these are checked here.

    In front of an arrival's own pairs there may be those of a group that a change has cut.
    """

    def __init__(self, parts, traffic):
        self.pairs, self.stars = [[]], []
        came, partial, end = [[]], [], 0
        for pairs, star in zip(parts.pairs, parts.stars, strict=False):
            came[-1] += pairs
            if star != ANSWER and not star[0]:
                partial.append(star)
                came.append([])
                continue
            end = _closed(star, traffic.singles, end)
            if partial:
                assert {one[1:] for one in partial} == {star[1:]}, f"{partial[0]} before {star}"
                _check_intervals(came, traffic.singles[end - 1][3], star)
            self.pairs[-1] += sum(came, [])
            self.stars.append(star)
            self.pairs.append([])
            came, partial = [[]], []
        assert not partial, f"star {partial[0]} is the last one"
        self.pairs[-1] += sum(came, []) + parts.pairs[-1]


def _closed(star, singles, begin):
    """Return behind which arrival a star is; ``begin`` of them were closed before. Ids wrap."""
    if star == ANSWER:
        return begin
    ends = (at for at in range(begin, len(singles)) if singles[at][:2] == star[1:])
    end = next(ends, None)
    assert end is not None, f"star {star} came behind arrival {begin}"
    return end + 1


def _check_intervals(came, intervals, star):
    """Check that parts of an arrival are as many intervals each, a power of two."""
    for log in range(COARSEST_LOG):
        size = 1 << log
        right = [sum(intervals[at : at + size], []) for at in range(0, len(intervals), size)]
        if len(right) == len(came):
            break
    else:
        raise AssertionError(f"{len(came)} parts of {len(intervals)} intervals, before {star}")
    COVERAGE.hit("inner order, relaxed" if log else "inner order, strict")
    for number, (some, wanted) in enumerate(zip(came, right, strict=True)):
        got = some[len(some) - len(wanted) :] if number == 0 else some
        assert Counter(got) == Counter(wanted), f"part {number} before {star}: {got}, not {wanted}"


class Groups:
    """Arrivals in the groups that the stars have made of them.

    Members
    -------
    parts : list
        Pairs of each group, and its star: what has to come.
    sizes : list
        Arrivals of the groups that no answer has cut. A group that a change of the precision has
        cut counts to the next one, whose star closes both.
    """

    def __init__(self, traffic, stars, diary=None):
        tuples = [n for n, turn in enumerate(traffic.turns) if turn]  # their numbers as messages
        answers = [n for n, turn in enumerate(traffic.turns) if turn is None]
        self.parts, self.sizes = [], []
        begin, closed = 0, None
        for star in stars:
            if star == ANSWER:
                message = answers.pop(0)
                end = message - (len(traffic.turns) - len(tuples) - len(answers) - 1)
            else:
                end = _closed(star, traffic.singles, begin)
                message = tuples[end - 1]
            self.parts.append((sum((one[2] for one in traffic.singles[begin:end]), []), star))
            if star != ANSWER:
                assert star[0], f"star {star} closes only a part"
                self.sizes.append(end - begin)
                if diary and closed is not None:
                    # They were taken between the last star's arrival and this star.
                    seen = diary.intervals[diary.came[closed] : diary.left[len(self.parts) - 1]]
                    runs = [interval for interval, _ in groupby(seen)]
                    right = min(runs) <= end - begin <= sum(runs)
                    assert right, f"a group of {end - begin} with intervals of {runs}"
            begin, closed = end, message
        assert not answers, f"{len(answers)} answers did not come"
        for before, after in zip(self.sizes, self.sizes[1:], strict=False):
            COVERAGE.hit("interval grows", after > before)
            COVERAGE.hit("interval shrinks", after < before)


def arrive(run, *, values=40):
    run.traffic.random_tuple(random, values=values)


def precision(bench):
    """Return how coarse the order is, in steps from the finest."""
    inner, interval = bench.get("inner_interval"), bench.get("interval")
    return inner.bit_length() - 1 if inner else COARSEST_LOG + interval.bit_length()


@cocotb.test()
@cocotb.parametrize(stall=("never", "random", "bursts"))
async def order_is_coarser_while_results_keep_the_input_waiting_and_finer_when_not(dut, stall):
    run = Run(dut, coverage=COVERAGE, order=STRICT, setting=SETTINGS[0], stall=stall)
    run.traffic.order = ("OUTER", None)
    run.set({"adaptive": 1})
    await run.start()
    diary = Diary(run.bench)
    bench = run.bench
    taken = bench.monitors["i"]
    for _ in range(2):
        for _ in range((STEPS + 2) * PERIOD // 8):  # with its pairs, a tuple takes 12 cycles
            arrive(run, values=2)
        run.send()
        await bench.until(lambda: taken.count == run.sent, limit=60 * run.sent, what="a pause")
        assert precision(bench) == STEPS, f"the precision is {precision(bench)} of {STEPS}"
        # The last tuples may have come early in a period, and have waited for nothing.
        await bench.cycles(2 * PERIOD)
        kept = precision(bench)
        assert kept in (STEPS, STEPS - 1), f"the precision is {kept} of {STEPS}"
        await bench.cycles(8 * PERIOD)
        assert precision(bench) == kept, "the precision changed while nothing came"
        for _ in range(3 * (STEPS + 2)):
            arrive(run, values=250)
            run.send()
            await bench.cycles(PERIOD // 2 + random.randrange(20))
        assert precision(bench) == 0, f"the precision is {precision(bench)} of {STEPS}"
    run.traffic.star(flush=True)
    run.send()
    await run.settled(1)
    await bench.cycles(30)
    (parts,) = run.parts.values()
    whole = Whole(parts, run.traffic)
    groups = Groups(run.traffic, whole.stars, diary)
    whole.check(groups.parts)
    run.cover("input waits", bench.get("waited"))
    assert set(groups.sizes) >= {1, MOST}, f"groups of {set(groups.sizes)} only"


async def begun(dut):
    """Return an operator that adapts its precision."""
    run = Run(dut, coverage=COVERAGE, order=STRICT, setting=SETTINGS[0])
    run.traffic.order = ("OUTER", None)
    run.set({"adaptive": 1})
    await run.start()
    return run


async def emptied(run):
    """Flush the operator, and return what came and the groups that its stars have made."""
    run.traffic.star(flush=True)
    run.send()
    await run.settled(1)
    (parts,) = run.parts.values()
    whole = Whole(parts, run.traffic)
    return whole, Groups(run.traffic, whole.stars)


@cocotb.test()
async def groups_stay_small_where_scans_are_the_limit(dut):
    """Stars are in nobody's way there, so fewer of them would not help."""
    run = await begun(dut)
    bench = run.bench
    for _ in range((STEPS + 6) * PERIOD // 4):  # a tuple takes seven cycles
        arrive(run, values=250)
    run.send()
    taken = bench.monitors["i"]
    await bench.until(lambda: taken.count == run.sent, limit=60 * run.sent, what="a pause")
    assert bench.get("waited") > STEPS * PERIOD // 2
    reached = precision(bench)
    assert reached == COARSEST_LOG + 1, f"the precision is {reached}, not that of single arrivals"
    whole, groups = await emptied(run)
    whole.check(groups.parts)


@cocotb.test()
async def it_settles_at_the_finest_order_that_sustains_the_input(dut):
    """At a pace between those of strict inner order, a star per slot, and of the next step."""
    run = await begun(dut)
    bench, seen, waited = run.bench, [], []
    bench.watch(lambda: seen.append(precision(bench)))
    for _ in range(300 * PERIOD // PACE):
        arrive(run, values=250)
        run.send()
        await bench.cycles(PACE)
        waited.append(bench.get("waited"))
    late = Counter(seen[len(seen) // 2 :])
    assert late[1] > 0.8 * late.total(), f"cycles at each step were {late}"
    waits = waited[-1] - waited[len(waited) // 2]
    assert waits < 0.08 * late.total(), f"{waits} of {late.total()} cycles had to wait"
    await emptied(run)  # ids wrap, so pairs are not compared


@cocotb.test()
async def intervals_are_fixed_again_when_it_is_told_so(dut):
    run = Run(dut, coverage=COVERAGE, order=STRICT, setting=SETTINGS[1], stall="random")
    await run.start()
    (parts,) = run.parts.values()
    for adaptive in (1, 0, 1, 0):
        run.set({"adaptive": adaptive})
        await run.bench.cycles(8)
        before = Whole(parts, run.traffic).stars
        for _ in range(3 * PERIOD):
            arrive(run)
        run.traffic.star()
        run.send()
        await run.settled(3 * PERIOD)
        sizes = Groups(run.traffic, Whole(parts, run.traffic).stars).sizes
        late = sizes[sum(star != ANSWER for star in before) :]
        assert (set(late) == {1}) == (not adaptive), f"groups of {set(late)}"
    await run.bench.cycles(30)
    whole = Whole(parts, run.traffic)
    whole.check(Groups(run.traffic, whole.stars).parts)


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
