"""Bench of the windows of the lock-step chain: a list of the last tuples, cycle by cycle."""

from collections import Counter, deque

import cocotb
from cocotb.triggers import FallingEdge

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters

SLOTS, LANES = parameters()["slots"], parameters()["lanes"]
LATENCY, INTERVAL = parameters()["latency"], parameters()["interval"]
ROWS = -(-SLOTS // LANES)
EMPTY = (0, 0)
COVERAGE = Coverage("wrap-around", "bubble", "clear when full", "read behind a push", "part in use")


class Player:
    """Drive a window and compare it with a list of as many slots as are in use."""

    def __init__(self, bench, used):
        self.bench = bench
        self.used = used
        self.held = deque([EMPTY] * used, used)
        self.pushed = 0
        self.rest = 0  # cycles until the next push is allowed
        self.reads = deque()  # cycle in which it is due, what it adds to, what must be there
        self.now = 0

    async def cycle(self, **inputs):
        """Let a cycle pass with these inputs; return what is leaving in it."""
        for name in ("push", "clear", "row", "entering"):
            self.bench.set(name, inputs.get(name, 0))
        await FallingEdge(self.bench.dut.clk)
        leaving = self.bench.get("leaving")
        if self.reads and self.reads[0][0] == self.now:
            _, seen, expected = self.reads.popleft()
            slots = [self.bench.get(f"lanes__{lane}") for lane in range(LANES)]
            seen.update(slot["entry"] for slot in slots if slot["valid"])
            if expected is not None:
                assert seen == expected, f"the window shows {seen}, not {expected}"
            COVERAGE.hit("read behind a push", inputs.get("push"))
        await self.bench.cycles(1)
        self.now += 1
        self.rest -= 1
        return leaving

    async def push(self, slot):
        while self.rest > 0:
            await self.cycle()
        leaving = await self.cycle(push=1, entering={"valid": slot[0], "entry": slot[1]})
        self.rest = INTERVAL - 1
        first = self.held[0]
        got = (leaving["valid"], leaving["entry"] if leaving["valid"] else 0)
        assert got == (first if first[0] else EMPTY), f"{got} left, not {first}"
        self.held.append(slot)
        self.pushed += 1
        COVERAGE.hit("wrap-around", self.pushed > self.used)
        COVERAGE.hit("bubble", not slot[0])

    async def clear(self):
        await self.cycle(clear=1)
        COVERAGE.hit("clear when full", self.pushed >= self.used)
        self.rest = max(self.rest, 1)  # the pointers follow a cycle later
        self.held.extend([EMPTY] * self.used)
        self.pushed = 0

    async def read(self):
        """Ask for all rows; the answers are checked when they come."""
        seen = Counter()
        for row in range(ROWS):
            last = row == ROWS - 1
            expected = Counter(entry for valid, entry in self.held if valid) if last else None
            self.reads.append((self.now + LATENCY, seen, expected))
            await self.cycle(row=row)


@cocotb.test()
@cocotb.parametrize(used=range(1, SLOTS + 1), bubbles=(0, 0.3))
async def it_holds_the_last_tuples(dut, used, bubbles):
    bench = Bench(dut)
    row, lane = divmod(used - 1, LANES)
    bench.set("last", {"row": row, "lane": lane})
    for name in ("push", "clear", "row", "entering"):
        bench.set(name, 0)
    await bench.start()
    await bench.cycles(2)
    COVERAGE.hit("part in use", used < SLOTS)
    player = Player(bench, used)
    random = bench.random
    for _ in range(12 * used + 20):
        match random.choices(("push", "read", "clear", "wait"), (12, 5, 1, 2))[0]:
            case "push":
                entry = random.getrandbits(8)
                await player.push((1, entry) if random.random() >= bubbles else EMPTY)
            case "read":
                await player.read()
            case "clear":
                await player.clear()
            case "wait":
                await player.cycle()
    await player.read()
    for _ in range(LATENCY):
        await player.cycle()


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
