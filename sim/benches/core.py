"""Bench of a core of the lock-step chain: its neighbours are played by two lists."""

from collections import Counter, deque
from math import ceil

import cocotb
from cocotb.triggers import FallingEdge

from eddyline.plan import Plan
from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.joins import Results, difference
from sim.benches.patterns import STALL

PLAN = Plan.from_json(parameters()["plan"])
SEGMENTS, LANES = parameters()["segments"], parameters()["lanes"]
INTERVAL = parameters()["interval"]
COVERAGE = Coverage("throttle", "bubble", "wrap-around", "clear", "several hits at once")
BUBBLE = None


class Player:
    """Tell a core what to do, step by step, and keep lists of what it holds."""

    def __init__(self, bench, used):
        self.bench = bench
        self.used = used
        self.held = {side: deque([BUBBLE] * used[side], used[side]) for side in "rs"}
        self.ids = {"r": 0, "s": 0}
        self.epochs = [Counter()]
        self.due = None  # what the last step brings: side, slot, and what has to leave

    async def cycle(self, **step):
        """Let a cycle pass. Steps wait while there is no room.

        The neighbours act in the cycle after a step, as the core does.
        """
        while step and self.bench.get("throttle"):
            COVERAGE.hit("throttle")
            await self.cycle()
        self.bench.set("step", step)
        due, self.due = self.due, None
        if due:
            side, slot, expected = due
            self.bench.set(f"{side}_in", slot)
        await FallingEdge(self.bench.dut.clk)
        if due:
            leaving = self.bench.get(f"{side}_out")
            got = leaving["entry"][side] if leaving["valid"] else BUBBLE
            assert got == expected, f"{got} left the window of {side.upper()}, not {expected}"
        await self.bench.cycles(1)
        self.bench.set("step", 0)

    async def move(self, side, words):
        """Let a tuple come in, or a bubble, and wait for as long as its comparisons take."""
        entry = BUBBLE if words is None else {"id": self.ids[side], "words": words}
        self.ids[side] += entry is not BUBBLE
        slot = {"valid": 0} if entry is BUBBLE else {"valid": 1, "entry": {side: entry}}
        await self.cycle(move=1, side=int(side == "s"))
        self.due = (side, slot, self.held[side][0])
        other = "sr"[side == "s"]
        hits = 0
        for partner in self.held[other]:
            if entry is not BUBBLE and partner is not BUBBLE:
                r, s = (entry, partner) if side == "r" else (partner, entry)
                if PLAN.matches(r["words"] | {"valid": -1}, s["words"] | {"valid": -1}):
                    self.epochs[-1][r["id"], s["id"]] += 1
                    hits += 1
        self.held[side].append(entry)
        COVERAGE.hit("bubble", entry is BUBBLE)
        COVERAGE.hit("several hits at once", hits > 1)
        COVERAGE.hit("wrap-around", self.ids[side] > self.used[side])
        for _ in range(max(INTERVAL, ceil(self.used[other] / LANES)) - 1):
            await self.cycle()

    async def star(self, *, clear=False):
        await self.cycle(star=1, clear=int(clear))
        self.epochs.append(Counter())
        if clear:
            COVERAGE.hit("clear")
            await self.cycle()
            for side in "rs":
                self.held[side].extend([BUBBLE] * self.used[side])


async def start(dut, used, stall):
    bench = Bench(dut, stall=stall)
    for name in ("step", "r_in", "s_in", "shed"):
        bench.set(name, 0)
    for side in "rs":
        row, lane = divmod(used[side] - 1, min(LANES, SEGMENTS[side]))
        bench.set(f"last_{side}", {"row": row, "lane": lane})
    await bench.start()
    await bench.cycles(2)
    return bench, Player(bench, used)


def words(random, side, values):
    x = random.randrange(values)
    return {"x": x} if side == "r" else {"lo": x, "hi": x + random.randrange(2)}


@cocotb.test()
@cocotb.parametrize(
    used=[SEGMENTS, {"r": 1, "s": SEGMENTS["s"]}, {"r": 2, "s": 1}], stall=STALL, values=(1, 4)
)
async def what_enters_meets_all_of_the_other_segment(dut, used, stall, values):
    bench, player = await start(dut, used, stall)
    results = Results(bench, ["o"])
    random = bench.random
    for _ in range(60):
        side = random.choice("rs")
        bubble = random.random() < 0.1
        await player.move(side, None if bubble else words(random, side, values))
        if random.random() < 0.1:
            await player.star(clear=random.random() < 0.3)
    await player.star()
    await bench.until(
        lambda: results.stars == len(player.epochs) - 1, limit=5000, what="the last star"
    )
    wrong = difference(results.epochs, player.epochs)
    assert not wrong, wrong
    assert not bench.get("dropped_results")


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
