"""Bench of the combiner: two streams become one, in the order of arrivals that the records give."""

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.patterns import IDLE, STALL

STALLS = parameters()["stalls"]  # only what comes is checked, not when
COVERAGE = Coverage(
    "arrival of R",
    "arrival of S",
    "arrival in parts",
    "group",
    "group of one side",
    "group without a pair",
    "hidden star",
    "answer",
    "other side waits",
    "stalled output",
)


class Traffic:
    """Items of both sides, the records, and the rounds that have to come."""

    def __init__(self, random):
        self.random = random
        self.items = [[], []]
        self.records, self.rounds = [], []
        self._number = 0

    def _item(self, side, **fields):
        """Return an item that is unlike any other nearby."""
        self._number = (self._number + 1) % 1024
        ids = {"r_id": self._number, "s_id": (3 * self._number) % 1024}
        return {"star": 0, "sync": 0, "final": 0, "side": side} | ids | fields

    def _send(self, side, items, **hints):
        for item in items:
            flags = item | {"hidden": 0, "both": 0, "ordered": 0} | hints
            pair = {name: flags.pop(name) for name in ("r_id", "s_id")}
            self.items[side].append({"item": flags, "pair": pair})

    def arrival(self, side, *, parts=1):
        """Let an arrival be closed on its own, in parts or not."""
        items = []
        for part in range(parts):
            items += [self._item(side) for _ in range(self.random.choice((0, 0, 1, 3, 8)))]
            items.append(self._item(side, star=1, final=int(part == parts - 1)))
        self._send(side, items)
        self.records.append({"both": 0, "r": 1 - side, "s": side})
        self.rounds.append(([items], None))
        COVERAGE.hit("arrival of S" if side else "arrival of R")
        COVERAGE.hit("arrival in parts", parts > 1)

    def group(self, *, kind="final"):
        """Let arrivals of both sides be closed together."""
        queues = [
            [self._item(side) for _ in range(self.random.choice((0, 0, 2, 7)))] for side in (0, 1)
        ]
        last = self.random.randrange(2)
        star = self._item(last, star=1, **({} if kind == "hidden" else {kind: 1}))
        for side, queue in enumerate(queues):
            self._send(side, queue)
            self._send(side, [star], both=1, hidden=int(kind == "hidden"))
        self.records.append({"both": 1, "r": 0, "s": 0})
        self.rounds.append((queues, None if kind == "hidden" else star))
        COVERAGE.hit("group")
        COVERAGE.hit("group of one side", bool(queues[0]) != bool(queues[1]))
        COVERAGE.hit("group without a pair", not any(queues))
        COVERAGE.hit("hidden star", kind == "hidden")
        COVERAGE.hit("answer", kind == "sync")


async def play(bench, traffic):
    bench.scoreboard.add_rounds(bench.monitors["o"], traffic.rounds)
    inputs = [bench.monitors[f"i__{side}"] for side in (0, 1)]

    def cover():
        assert not bench.get("overrun"), "the output was overrun"
        COVERAGE.hit("other side waits", [one.stalled for one in inputs].count(True) == 1)
        COVERAGE.hit("stalled output", bench.monitors["o"].stalled)

    bench.watch(cover)
    bench.send("records", traffic.records)
    for side, items in enumerate(traffic.items):
        bench.send(f"i__{side}", items)
    await bench.finish(limit=600 + 60 * (1 + 3 * STALLS) * sum(map(len, traffic.items)))
    for name in ("i__0", "i__1", "records"):
        assert not bench.monitors[name].sample()[0], f"something is left at {name}"


@cocotb.test()
@cocotb.parametrize(idle=IDLE, stall=STALL)
async def items_come_in_the_order_of_the_records(dut, idle, stall):
    bench = Bench(dut, idle=idle, stall=stall)
    await bench.start()
    traffic = Traffic(bench.random)
    for _ in range(16):
        if bench.random.random() < 0.6:
            traffic.arrival(bench.random.randrange(2), parts=bench.random.choice((1, 1, 3)))
        else:
            traffic.group(kind=bench.random.choice(("final", "sync", "hidden")))
    await play(bench, traffic)


@cocotb.test(skip=STALLS)
@cocotb.parametrize(kind=("arrivals", "groups"))
async def an_item_leaves_in_every_cycle(dut, kind):
    bench = Bench(dut)
    await bench.start()
    traffic = Traffic(bench.random)
    for number in range(20):
        if kind == "arrivals":
            traffic.arrival(number % 2)
        else:
            traffic.group()
    cycles = []
    bench.monitors["o"].add_callback(lambda _: cycles.append(bench.cycle))
    await play(bench, traffic)
    took = cycles[-1] - cycles[0] + 1
    assert took == len(cycles), f"{len(cycles)} items took {took} cycles"


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
