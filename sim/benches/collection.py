"""Bench of trees of punctuated mergers: stars say in which order, whoever is off is ignored.

With stalling queues inside only what comes is checked, not when.
"""

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.patterns import IDLE, STALL

WAYS, STALLS = parameters()["ways"], parameters()["stalls"]
BOUND = parameters()["bound"]  # outputs among which a busy input has its turn
ALL = (1 << WAYS) - 1
FLAGS = ("sync", "final", "side", "both", "hidden")
COVERAGE = Coverage(
    "round in sequence",
    "round in any order",
    "round without an item",
    "first input off",
    "all of a branch off",
    "stalled star",
    "stalled item",
    "cut off in a round",
)


class Traffic:
    """Numbered items of each input, and the rounds that have to come."""

    def __init__(self, random):
        self.random = random
        self.sent = [[] for _ in range(WAYS)]
        self.rounds = []
        self._numbers = [0] * WAYS
        self._ordered = False

    def _flags(self, **fields):
        return {name: self.random.randrange(2) for name in (*FLAGS, "ordered")} | fields

    def _items(self, way, count):
        """Return items as they come in, and as they have to leave: without any flag."""
        came, left = [], []
        for _ in range(count):
            self._numbers[way] += 1
            pair = {"r_id": way, "s_id": self._numbers[way] % 512}
            came.append({"item": self._flags(star=0), "pair": pair})
            left.append({"item": dict.fromkeys(came[-1]["item"], 0), "pair": pair})
        return came, left

    def round(self, enabled=ALL, *, sizes=(0, 0, 1, 2, 5, 9), ordered=None):
        """Let every input send some items and a star; those that are off send garbage."""
        ways = [way for way in range(WAYS) if enabled >> way & 1]
        ahead = self.random.random() < 0.6 if ordered is None else ordered
        pair = {"r_id": 512 + self.random.randrange(512), "s_id": self.random.randrange(1024)}
        star = {"item": self._flags(star=1, ordered=int(ahead)), "pair": pair}
        queues = []
        for way in range(WAYS):
            came, left = self._items(way, self.random.choice(sizes))
            if way in ways:
                self.sent[way] += [*came, star]
                queues.append(left)
            else:
                garbage = {"item": self._flags(star=self.random.randrange(2)), "pair": pair}
                self.sent[way].append(garbage)
        some = any(queues)
        COVERAGE.hit("round in sequence" if self._ordered else "round in any order", some)
        COVERAGE.hit("round without an item", not some)
        COVERAGE.hit("first input off", 0 not in ways)
        COVERAGE.hit("all of a branch off", len(ways) == 1)
        self.rounds.append(([sum(queues, [])] if self._ordered else queues, star))
        self._ordered = ahead

    def take(self):
        """Return what is new: by input, and the rounds."""
        fresh = self.sent, self.rounds
        self.sent, self.rounds = [[] for _ in range(WAYS)], []
        return fresh


async def start(dut, *, enabled=ALL, idle="never", stall="never"):
    bench = Bench(dut, idle=idle, stall=stall)
    bench.set("enabled", enabled)
    await bench.start()
    output = bench.monitors["o"]

    def watch():
        assert not bench.get("overrun"), "a queue was overrun"
        if output.stalled:
            star = bench.ports["o"].payload.decode(output.sample()[2])["item"]["star"]
            COVERAGE.hit("stalled star", star)
            COVERAGE.hit("stalled item", not star)

    bench.watch(watch)
    return bench


def send(bench, sent):
    for way, items in enumerate(sent):
        bench.send(f"i__{way}", items)


def limit(sent):
    return 600 + 60 * sum(map(len, sent)) * (1 + 3 * STALLS)


@cocotb.test()
@cocotb.parametrize(idle=IDLE, stall=STALL)
async def rounds_come_in_the_order_that_stars_ask_for(dut, idle, stall):
    bench = await start(dut, idle=idle, stall=stall)
    traffic = Traffic(bench.random)
    for _ in range(12):
        traffic.round()
    sent, rounds = traffic.take()
    bench.scoreboard.add_rounds(bench.monitors["o"], rounds)
    send(bench, sent)
    await bench.finish(limit=limit(sent))


@cocotb.test()
@cocotb.parametrize(stall=STALL)
async def nobody_waits_for_inputs_that_are_off(dut, stall):
    """They go off one after the other, between rounds."""
    bench = Bench(dut)
    traffic, enabled, phases = Traffic(bench.random), ALL, []
    for way in bench.random.sample(range(WAYS), WAYS):
        for _ in range(4):
            traffic.round(enabled)
        phases.append((enabled, *traffic.take()))
        enabled &= ~(1 << way)
    bench = await start(dut, idle="random", stall=stall)
    bench.scoreboard.add_rounds(bench.monitors["o"], sum((one[2] for one in phases), []))
    for number, (enabled, sent, _) in enumerate(phases):
        bench.set("enabled", enabled)
        await bench.cycles(3)
        send(bench, sent)
        left = sum(
            sum(map(len, queues)) + 1 for _, _, rest in phases[number + 1 :] for queues, _ in rest
        )
        await bench.until(
            lambda left=left: bench.scoreboard.remaining == left, limit=limit(sent), what="a round"
        )
        await bench.cycles(40)
    await bench.finish(limit=10)


@cocotb.test()
@cocotb.parametrize(stall=STALL, idle=("never", "random"))
async def whoever_goes_off_in_a_round_takes_nothing_of_others_along(dut, stall, idle):
    # Of those who go off, items that are under way may come or not, and from there on none.
    bench = await start(dut, idle=idle, stall=stall)
    random = bench.random
    traffic = Traffic(random)
    for _ in range(24):
        traffic.round(sizes=(1, 2, 5, 9))
    sent, rounds = traffic.take()
    off = random.sample(range(WAYS), random.randint(1, WAYS - 1))
    got = {way: [] for way in off}

    def note(payload):
        if not payload["item"]["star"] and payload["pair"]["r_id"] in got:
            got[payload["pair"]["r_id"]].append(payload["pair"])

    output = bench.monitors["o"]
    output.add_callback(note)
    bench.scoreboard.add_rounds(
        output, rounds, optional=lambda payload: payload["pair"]["r_id"] in off
    )
    send(bench, sent)
    enabled = ALL
    for way in off:
        share = output.count + random.randint(10, 40)
        await bench.until(lambda share=share: output.count >= share, limit=limit(sent))
        enabled &= ~(1 << way)
        bench.set("enabled", enabled)
    await bench.finish(limit=limit(sent))
    for way, pairs in got.items():
        due = [one["pair"] for one in sent[way] if not one["item"]["star"]]
        assert pairs == due[: len(pairs)], f"input {way} went off, and then came {pairs}"
        COVERAGE.hit("cut off in a round", len(pairs) < len(due))


@cocotb.test(skip=STALLS)
@cocotb.parametrize(ordered=(False, True), sizes=((0,), (1,), (20,), (0, 1, 3, 8)))
async def an_item_or_a_star_leaves_in_every_cycle(dut, ordered, sizes):
    bench = await start(dut)
    traffic = Traffic(bench.random)
    for _ in range(20):
        traffic.round(sizes=sizes, ordered=ordered)
    sent, rounds = traffic.take()
    bench.scoreboard.add_rounds(bench.monitors["o"], rounds)
    cycles = []
    bench.monitors["o"].add_callback(lambda _: cycles.append(bench.cycle))
    bench.sinks["o"].blocked = True  # until every queue is full
    send(bench, sent)
    await bench.cycles(100)
    bench.sinks["o"].blocked = False
    await bench.finish(limit=limit(sent))
    took = cycles[-1] - cycles[0] + 1
    assert took == len(cycles), f"{len(cycles)} items took {took} cycles"


@cocotb.test(skip=STALLS)
async def busy_inputs_take_turns(dut):
    bench = await start(dut)
    traffic = Traffic(bench.random)
    traffic.round(sizes=(60,), ordered=False)
    sent, rounds = traffic.take()
    bench.scoreboard.add_rounds(bench.monitors["o"], rounds)
    order = []
    bench.monitors["o"].add_callback(lambda payload: order.append(payload["pair"]["r_id"]))
    send(bench, sent)
    await bench.finish(limit=limit(sent))
    busy = order[40 : 30 * WAYS]  # inputs on a longer way come later
    for first in range(len(busy) - BOUND):
        starved = set(range(WAYS)) - set(busy[first : first + BOUND])
        assert not starved, f"inputs {starved} starved among {busy[first : first + BOUND]}"


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
