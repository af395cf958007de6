"""Bench of SplitJoin over windows of time, and without an end: exact, or an overflow is told."""

import random

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.parts import PartedTraffic, Parts

CORES, KEPT, TIMED = (parameters()[name] for name in ("cores", "kept", "timed"))
SETTINGS = parameters()["settings"]  # for some capacities, the largest first
ORDERS = parameters()["orders"]
COVERAGE = Coverage(
    "overflow",
    "window is full and nothing overflows",
    "all have grown old",
    "young to the last moment",
    "old by a moment",
)


class Run:
    """An operator under way, with what it was sent and what came."""

    def __init__(self, dut, *, order=ORDERS[0], setting=SETTINGS[0], idle="never", stall="never"):
        self.bench = Bench(dut, idle=idle, stall=stall)
        self.traffic = PartedTraffic(
            parameters()["plan"], cores=CORES, rows=setting["rows"], order=tuple(order[:2])
        )
        self.exact = tuple(order[:2]) == ("INNER", 1)
        values = order[2] | setting["values"] | {"adaptive": 0, "selected": 0, "disabled": 0}
        for name, value in values.items():
            self.bench.set(name, value)
        # Times fill all of their bits, or hardly any.
        self.when = random.choice((0, (1 << 40) - 60, (1 << 63) - 60))
        self.arrivals = {"r": [], "s": []}
        self.sent = 0

    async def start(self):
        await self.bench.start()
        self.parts = Parts(self.bench.monitors["o"])
        await self.bench.cycles(8)  # settings go through registers

    def arrive(self, side, *, gap, ages, x=0):
        """Let a tuple arrive ``gap`` after the one before."""
        self.when += gap
        words = {"x": x} if side == "r" else {"lo": 0, "hi": x}
        words |= {"when": self.when}
        if side in TIMED:
            words |= {"until": self.when + ages[side]}
        for old in self.arrivals["sr"[side == "s"]]:
            if "until" in old:
                COVERAGE.hit("young to the last moment", old["until"] == self.when)
                COVERAGE.hit("old by a moment", old["until"] == self.when - 1)
        if side in TIMED:
            COVERAGE.hit(
                "all have grown old",
                self.arrivals[side] and max(a["until"] for a in self.arrivals[side]) < self.when,
            )
        self.arrivals[side].append(words)
        self.traffic.tuple(side, words)

    @property
    def overflows(self):
        """Whether a tuple had to leave that was young, or that had to stay for ever."""
        return any(
            side in KEPT or (side in TIMED and old["until"] >= new["when"])
            for side, old, new in self.traffic.forgotten
        )

    async def answered(self):
        """Send what is new, of which the last is a star, and see what comes."""
        traffic = self.traffic
        fresh = traffic.messages[self.sent :]
        self.sent = len(traffic.messages)
        answers = sum(message["star"] for message in traffic.messages)
        items = sum(len(pairs) + 1 for pairs, _ in traffic.parts)
        self.bench.send("i", fresh)
        await self.bench.until(
            lambda: self.parts.answers == answers,
            limit=2000 + 60 * (len(fresh) + items),
            what=f"answer {answers}",
        )
        await self.bench.cycles(30)
        exact = range(len(traffic.parts)) if self.exact else ()
        self.parts.check(traffic.parts, exact=exact)
        told = bool(self.bench.get("overflow"))
        assert told == self.overflows, f"overflow is {told}, not {self.overflows}"
        COVERAGE.hit("overflow", told)
        COVERAGE.hit("window is full and nothing overflows", traffic.forgotten and not told)


@cocotb.test()
@cocotb.parametrize(
    order=ORDERS,
    patterns=(("never", "never"), ("random", "random"), ("bursts", "on demand")),
    ages=("short", "long"),
)
async def pairs_are_exact_and_an_overflow_is_told(dut, order, patterns, ages):
    # A tuple that was overwritten gives no more pairs; all others are as exact as before.
    idle, stall = patterns
    run = Run(dut, order=order, setting=random.choice(SETTINGS), idle=idle, stall=stall)
    await run.start()
    longest = {"short": 4, "long": 30}[ages]
    for _ in range(3):
        young = {side: random.randrange(longest) for side in "rs"}
        gaps = random.choice(((0, 1), (0, 1, 1, 2, 20), (1, 3)))
        share = random.choice((0.2, 0.5, 0.8))
        for _ in range(random.randrange(40)):
            side = "r" if random.random() < share else "s"
            run.arrive(side, gap=random.choice(gaps), ages=young, x=random.randrange(3))
        run.traffic.star(flush=random.random() < 0.4)
        await run.answered()


@cocotb.test()
async def the_last_tuple_that_fits_is_no_overflow_and_the_next_is(dut):
    for side in TIMED + KEPT:
        run = Run(dut)
        await run.start()
        ages = {"r": 1000, "s": 1000}
        for _ in range(run.traffic.rows[side]):
            run.arrive(side, gap=1, ages=ages)
        run.traffic.star()
        await run.answered()
        run.arrive(side, gap=0, ages=ages)
        run.traffic.star(flush=True)
        await run.answered()
        assert run.bench.get("overflow")
        run.traffic.star(flush=True)  # it stays
        await run.answered()


@cocotb.test(skip=set(TIMED) != {"r", "s"})
async def rows_of_old_tuples_are_not_read(dut):
    run = Run(dut, idle="every other")
    await run.start()
    count, ages = 120, {"r": 2, "s": 2}
    for number in range(count):
        run.arrive("rs"[number % 2], gap=4, ages=ages)
        run.traffic.star()  # time to look at what has grown old
        run.traffic.star()
    await run.answered()
    rows = parameters()["rows"]
    busy = run.bench.get("busy")
    assert busy < count * rows / 2, f"{busy} rows were read for {count} tuples, {rows} rows each"


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
