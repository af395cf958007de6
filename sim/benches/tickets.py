"""Bench of queues of tickets: heads in order, bodies behind them, and never too many under way.

Pushes come as late behind a look at ``room`` as they may, or earlier.
"""

from collections import deque

import cocotb
from cocotb.triggers import FallingEdge

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.patterns import IDLE, STALL, pauses

DEPTH, FLIGHT, LAG, LATENCY = (parameters()[name] for name in ("depth", "flight", "lag", "latency"))
FOLLOWS = 2  # cycles from an offer to its body
COVERAGE = Coverage(
    "no room",
    *(["stopped with pushes under way"] if FLIGHT else []),
    "empty",
    "came and taken in one cycle",
    "wrap-around",
)


class Player:
    """A producer that respects ``room``, a consumer, and what has to be seen in every cycle.

    Parameters
    ----------
    bench : Bench
        Around the queue.
    count : int
        Payloads to send.
    idle, stall : str
        Patterns.
    hurried : bool
        Some pushes are quicker than the longest way.
    """

    def __init__(self, bench, count, *, idle="never", stall="never", hurried=False):
        self.bench = bench
        random = bench.random
        self.sent = [(random.getrandbits(4), random.getrandbits(40)) for _ in range(count)]
        self.hurried = hurried
        self.asked = 0  # payloads that are under way or were pushed
        self.pushed = self.taken = 0
        self.pushes, self.takes = [], []  # cycles
        self.stopped = False  # the consumer takes nothing
        self._idle = pauses(idle, random)
        self._on_demand = stall == "on demand"
        self._stall = pauses("never" if self._on_demand else stall, random)
        self._due = deque()
        self._bodies = deque([None] * LAG)
        self._offers = deque([None] * FOLLOWS)
        self._foretold = self._held = None
        bench.watch(self._watch)
        cocotb.start_soon(self._drive())

    @property
    def done(self):
        return self.taken == len(self.sent)

    async def _drive(self):
        edge, bench = FallingEdge(self.bench.dut.clk), self.bench
        while True:
            await edge
            now, room = bench.cycle, bench.get("room")
            if room and not next(self._idle) and self.asked < len(self.sent):
                way = bench.random.randint(0, FLIGHT) if self.hurried else FLIGHT
                earliest = self._due[-1] + 1 if self._due else now
                self._due.append(max(earliest, now + way))
                self.asked += 1
            COVERAGE.hit("no room", not room)
            if FLIGHT:
                COVERAGE.hit("stopped with pushes under way", not room and self._due)
            self._push(now)
            willing = not next(self._stall) and not self.stopped
            if self._on_demand:
                willing = willing and bench.get("o__valid") and not bench.get("o__ready")
            # Whoever takes what is foretold is ready while there is nothing.
            bench.set("o__ready", int(bool(willing) or not bench.get("o__valid")))

    def _push(self, now):
        """Push what is due in this cycle; what nobody may look at is random."""
        bench, body = self.bench, None
        comes = bool(self._due) and self._due[0] == now
        bench.set("push", int(comes))
        head = bench.random.getrandbits(4)
        if comes:
            self._due.popleft()
            head, body = self.sent[self.pushed]
            self.pushed += 1
            self.pushes.append(now)
        bench.set("head", head)
        self._bodies.append(body)
        body = self._bodies.popleft()
        bench.set("body", bench.random.getrandbits(40) if body is None else body)

    def _watch(self):
        bench = self.bench
        assert not bench.get("overrun"), f"something was lost behind {self.pushed} pushes"
        valid, ready = bench.get("o__valid"), bench.get("o__ready")
        head = bench.get("o__payload") if valid else None
        if self._foretold is not None:
            coming, ahead = self._foretold
            assert bool(valid) == coming, f"coming was {coming}, valid is {bool(valid)}"
            assert not valid or head == ahead, f"head {head} was foretold as {ahead}"
        self._foretold = bool(bench.get("o__coming")), bench.get("o__ahead")
        assert valid or not self._held, "an offer was withdrawn"
        self._held = valid and not ready
        if valid:
            assert self.taken < self.pushed, f"head {head} came, expected nothing"
            right = self.sent[self.taken][0]
            assert head == right, f"head {self.taken} is {head}, not {right}"
        self._offers.append(self.taken if valid else None)
        offered = self._offers.popleft()
        if offered is not None:
            got, right = bench.get("follows"), self.sent[offered][1]
            assert got == right, f"body {offered} is {got:#x}, not {right:#x}"
        COVERAGE.hit("empty", not valid and self.taken == self.pushed > 0)
        COVERAGE.hit("came and taken in one cycle", bench.get("push") and valid and ready)
        COVERAGE.hit("wrap-around", self.taken > 2 * DEPTH)
        if valid and ready:
            self.taken += 1
            self.takes.append(bench.cycle - 1)  # what is seen at an edge belongs to before it


async def start(dut, count, **options):
    bench = Bench(dut)
    for name in ("push", "head", "body"):
        bench.set(name, 0)
    bench.set("o__ready", 1)
    await bench.start()
    return bench, Player(bench, count, **options)


async def finish(bench, player, limit):
    await bench.until(lambda: player.done, limit=limit, what="the last payload")
    await bench.cycles(8)


@cocotb.test()
@cocotb.parametrize(idle=IDLE, stall=(*STALL, "droughts"), hurried=(False, True))
async def heads_come_in_order_and_bodies_behind_them(dut, idle, stall, hurried):
    count = 8 * DEPTH
    bench, player = await start(dut, count, idle=idle, stall=stall, hurried=hurried)
    await finish(bench, player, limit=60 * count)


@cocotb.test()
async def one_goes_through_in_every_cycle(dut):
    count = 4 * DEPTH
    bench, player = await start(dut, count)
    await finish(bench, player, limit=count + 60)
    ways = {taken - pushed for pushed, taken in zip(player.pushes, player.takes, strict=True)}
    assert ways == {LATENCY}, f"payloads took {ways} cycles, not {LATENCY}"
    took = player.takes[-1] - player.takes[0] + 1
    assert took == count, f"{count} payloads took {took} cycles"


@cocotb.test()
async def behind_a_stop_there_is_no_gap(dut):
    """Those who come again once there is room come before the queue has run dry."""
    count = 6 * DEPTH
    bench, player = await start(dut, count)
    for _ in range(3):
        player.stopped = True
        await bench.cycles(3 * DEPTH)
        assert not bench.get("room"), "there always is room"
        player.stopped = False
        first = player.taken
        await bench.cycles(DEPTH + 8)
        cycles = player.takes[first:]
        took = cycles[-1] - cycles[0] + 1
        assert took == len(cycles) > DEPTH, f"{len(cycles)} payloads took {took} cycles"
    await finish(bench, player, limit=count + 60)


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
