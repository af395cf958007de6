"""Bench of the whole SplitJoin operator: pairs star by star, and no cycle for nothing.

With stalling queues inside, or a core that hangs and is switched off, only what comes is checked,
not when.
"""

import random

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.parts import PartedTraffic, Parts

CORES, STALLS, HUNG = (parameters()[name] for name in ("cores", "stalls", "hung"))
SETTINGS = parameters()["settings"]  # for some sizes of the windows, the largest first
ORDERS = parameters()["orders"]  # name of the precision, interval, values of the settings
INPUTS = {"alternating": "rs", "bursty": "rrrrrrrssss", "one-sided": "r"}
COVERAGE = Coverage(
    "stalled star",
    "window wraps around",
    "window smaller than the cores",
    "window that cores do not divide",
    "star behind no pair",
    "order changes",
    *([] if HUNG else ["input waits", "core switched off"]),
)
WHOLE = not STALLS and not HUNG  # cycles count
DEAD = 4000 if STALLS else 1500  # cycles in which nothing moves; the longest stall has 400


class Run:
    """An operator under way, with what it was sent and what came."""

    def __init__(self, dut, *, order, setting=SETTINGS[0], idle="never", stall="never"):
        self.bench = Bench(dut, idle=idle, stall=stall)
        self.traffic = PartedTraffic(
            parameters()["plan"], cores=CORES, rows=setting["rows"], order=tuple(order[:2])
        )
        self.traffic.off |= set(HUNG)
        self.sent, self.exact = 0, set()
        self._set(order[2] | setting["values"] | {"adaptive": 0, "selected": 0})
        self._set({"disabled": sum(1 << core for core in HUNG)})

    def _set(self, values):
        for name, value in values.items():
            self.bench.set(name, value)

    async def start(self):
        await self.bench.start()
        self.parts = Parts(self.bench.monitors["o"])
        self.bench.watch(self._cover)
        await self.bench.cycles(8)  # settings go through registers

    def _cover(self):
        output = self.bench.monitors["o"]
        if output.stalled:
            payload = self.bench.ports["o"].payload.decode(output.sample()[2])
            COVERAGE.hit("stalled star", payload["star"])

    async def change(self, *, order=None, setting=None, disabled=()):
        """Change settings behind a star that was answered."""
        if order:
            COVERAGE.hit("order changes", self.traffic.order != tuple(order[:2]))
            self.traffic.order = tuple(order[:2])
            self._set(order[2])
        if setting:
            self.traffic.rows = setting["rows"]
            self._set(setting["values"])
        if disabled:
            self.traffic.off |= set(disabled)
            self._set({"disabled": sum(1 << core for core in {*HUNG, *disabled})})
            COVERAGE.hit("core switched off")
        await self.bench.cycles(8)

    async def answered(self, *, exact=False):
        """Send what is new in the traffic, of which the last is a star, and see what comes."""
        traffic, parts = self.traffic, self.traffic.parts
        fresh = traffic.messages[self.sent :]
        if exact:
            self.exact |= set(range(len(self.parts.stars), len(parts)))
        self.bench.send("i", fresh)
        answers = sum(message["star"] for message in traffic.messages)
        items = sum(len(pairs) + 1 for pairs, _ in parts[len(self.parts.stars) :])
        monitors = [self.bench.monitors[name] for name in "io"]
        moves, since = 0, self.bench.cycle

        def done():
            nonlocal moves, since
            now = sum(one.count for one in monitors)
            if now != moves:
                moves, since = now, self.bench.cycle
            still = self.bench.cycle - since
            assert still < DEAD, f"answer {answers} did not come: nothing moves for {still} cycles"
            return self.parts.answers == answers

        await self.bench.until(
            done,
            limit=2000 + 40 * (len(fresh) + items) * (1 + 3 * STALLS),
            what=f"answer {answers}",
        )
        self.sent = len(traffic.messages)
        for rows in traffic.rows.values():
            COVERAGE.hit("window smaller than the cores", rows < CORES)
            COVERAGE.hit("window that cores do not divide", rows > CORES and rows % CORES)
        COVERAGE.hit("window wraps around", traffic.forgotten)

    async def finish(self):
        await self.bench.cycles(30)
        self.parts.check(self.traffic.parts, exact=self.exact)
        assert not self.bench.get("overflow"), "something was overwritten or lost"
        for core in range(CORES):
            self.bench.set("selected", core)
            await self.bench.cycles(8)
            expected = {f"unstored_{side}": self.traffic.unstored[side, core] for side in "rs"}
            if core not in HUNG:
                expected["comparisons"] = self.traffic.compared[core]
            for name, value in expected.items():
                got = self.bench.get(name)
                assert got == value, f"{name} of core {core} is {got}, not {value}"
        if not HUNG:
            COVERAGE.hit("input waits", self.bench.get("waited"))
        COVERAGE.hit("star behind no pair", not all(pairs for pairs, _ in self.traffic.parts))


def in_sequence(order):
    return tuple(order[:2]) == ("INNER", 1)


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
    run = Run(dut, order=order, setting=setting, idle=idle, stall=stall)
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
    run = Run(dut, order=ORDERS[0], setting=SETTINGS[1], idle="random", stall=stall)
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
    run = Run(dut, order=order)
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
@cocotb.parametrize(order=ORDERS, stall=("never", "random"))
async def only_the_pairs_of_a_core_that_is_off_are_missing(dut, order, stall):
    run = Run(dut, order=order, setting=SETTINGS[1], stall=stall)
    await run.start()
    for off in ((), *random.choice((((1,), (0, 1)), ((2,),), ((0,), (0, 2))))):
        if off:
            await run.change(disabled=off)
        for _ in range(20):
            run.traffic.random_tuple(random, values=2)
        run.traffic.star(flush=random.random() < 0.3)
        await run.answered(exact=in_sequence(order))
    await run.finish()


@cocotb.test(skip=bool(HUNG))
@cocotb.parametrize(
    percent=(0, 10, 50, 90, 100), stall=("bursts",) if STALLS else ("never", "droughts")
)
async def nothing_is_lost_however_much_matches(dut, percent, stall):
    order = random.choice(ORDERS)
    # Slow queues inside need not be filled from a large window.
    run = Run(dut, order=order, setting=SETTINGS[STALLS], stall=stall)
    await run.start()
    for _ in range(60 if STALLS else 120):
        if random.random() < 0.5:
            run.traffic.tuple("r", {"x": random.randrange(100)})
        else:
            run.traffic.tuple("s", {"lo": 100 - percent, "hi": 99})
    run.traffic.star(flush=True)
    await run.answered(exact=in_sequence(order))
    await run.finish()


def warm(traffic, r, s):
    """Fill both windows, so that every scan is a whole one."""
    for _ in range(traffic.rows["r"] + CORES):
        traffic.tuple("r", r)
    for _ in range(traffic.rows["s"] + CORES):
        traffic.tuple("s", s)


@cocotb.test(skip=not WHOLE)
@cocotb.parametrize(
    sides=list(INPUTS),
    order=[one for one in ORDERS if tuple(one[:2]) in (("NONE", 1), ("OUTER", 1), ("INNER", 64))],
)
async def comparators_are_busy_while_there_is_work(dut, sides, order):
    run = Run(dut, order=order)
    await run.start()
    words = {"r": {"x": 0}, "s": {"lo": 1, "hi": 1}}
    warm(run.traffic, words["r"], words["s"])
    for number in range(320):
        side = INPUTS[sides][number % len(INPUTS[sides])]
        run.traffic.tuple(side, words[side])
    run.bench.send("i", run.traffic.messages)
    taken = run.bench.monitors["i"]
    await run.bench.until(lambda: taken.count > 100, limit=2000, what="the first tuples")
    for core in range(CORES):
        run.bench.set("selected", core)
        await run.bench.cycles(8)
        busy, cycle = run.bench.get("busy"), run.bench.cycle
        await run.bench.cycles(300)
        busy, cycles = run.bench.get("busy") - busy, run.bench.cycle - cycle
        assert busy >= 0.99 * cycles, f"core {core} was busy in {busy} of {cycles} cycles"
    assert taken.count < len(run.traffic.messages), "the input ran dry"


@cocotb.test(skip=not WHOLE)
@cocotb.parametrize(
    sides=list(INPUTS),
    order=[one for one in ORDERS if one[0] != "INNER"],
)
async def a_result_leaves_in_every_cycle_when_all_match(dut, sides, order):
    # A star takes its own cycle, and in a tree of two levels three more, as measured.
    run = Run(dut, order=order)
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
    allowed = len(measured) + 3 * stars
    assert took <= 1.01 * allowed, f"{len(measured)} items with {stars} stars took {took} cycles"


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
