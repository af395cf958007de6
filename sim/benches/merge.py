"""Bench of mergers and merge trees: nothing lost, nothing twice, no star early, no one starved."""

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.patterns import IDLE, STALL

WAYS = parameters()["ways"]
STARS = parameters()["stars"]
BOUND = parameters()["bound"]  # outputs among which a busy input has its turn
COVERAGE = Coverage(
    "simultaneous arrival",
    "arrival alone",
    "stalled output",
    *(["star waits", "stars at all inputs"] if STARS else []),
)


def is_star(payload):
    return bool(payload.get("star", 0))


def traffic(random, way, rounds):
    """Return numbered payloads of one input, with ``rounds`` stars among them if it has stars."""
    payloads = []
    for _ in range(rounds):
        for _ in range(random.choice((0, 1, 2, 5, 9))):
            payloads.append({"way": way, "number": len(payloads)})
        if STARS:
            payloads.append({"way": way, "number": len(payloads), "star": 1})
    return [({"star": 0} if STARS else {}) | payload for payload in payloads]


def cover(bench):
    inputs = [bench.monitors[f"i__{way}"] for way in range(WAYS)]

    def watch():
        shown = [monitor.sample() for monitor in inputs]
        arriving = [bits for valid, _, bits in shown if valid]
        COVERAGE.hit("simultaneous arrival", len(arriving) > 1)
        COVERAGE.hit("arrival alone", len(arriving) == 1)
        COVERAGE.hit("stalled output", bench.monitors["o"].stalled)
        if STARS:
            decode = bench.ports["o"].payload.decode
            stars = [is_star(decode(bits)) for bits in arriving]
            COVERAGE.hit("star waits", 0 < sum(stars) < WAYS)
            COVERAGE.hit("stars at all inputs", sum(stars) == WAYS)

    bench.watch(watch)


@cocotb.test()
@cocotb.parametrize(idle=IDLE, stall=STALL)
async def nothing_is_lost_doubled_or_overtaken(dut, idle, stall):
    bench = Bench(dut, idle=idle, stall=stall)
    await bench.start()
    cover(bench)
    sent = [traffic(bench.random, way, rounds=6) for way in range(WAYS)]
    for way, payloads in enumerate(sent):
        bench.send(f"i__{way}", payloads)
    bench.scoreboard.add_merged(bench.monitors["o"], sent, is_star)
    await bench.finish(limit=40 * sum(map(len, sent)) + 100)


@cocotb.test()
async def busy_inputs_take_turns_and_fill_every_cycle(dut):
    bench = Bench(dut)
    await bench.start()
    count = 24
    sent = [[{"way": way, "number": n} for n in range(count)] for way in range(WAYS)]
    if STARS:
        sent = [[{"star": 0} | payload for payload in payloads] for payloads in sent]
    order, cycles = [], []
    bench.monitors["o"].add_callback(lambda payload: order.append(payload["way"]))
    bench.monitors["o"].add_callback(lambda _: cycles.append(bench.cycle))
    bench.scoreboard.add_merged(bench.monitors["o"], sent, is_star)
    for way, payloads in enumerate(sent):
        bench.send(f"i__{way}", payloads)
    await bench.finish(limit=4 * count * WAYS + 40)
    busy = order[: count * WAYS // 2]
    for start in range(len(busy) - BOUND):
        starved = set(range(WAYS)) - set(busy[start : start + BOUND])
        assert not starved, f"inputs {starved} starved among {busy[start : start + BOUND]}"
    took = cycles[-1] - cycles[0] + 1
    assert took == len(cycles), f"{len(cycles)} payloads took {took} cycles"


@cocotb.test()
@cocotb.parametrize(way=(0, WAYS - 1))
async def an_input_alone_has_every_cycle(dut, way):
    bench = Bench(dut)
    await bench.start()
    cover(bench)
    sent = [({"star": 0} if STARS else {}) | {"way": way, "number": n} for n in range(30)]
    bench.expect("o", sent)
    bench.send(f"i__{way}", sent)
    await bench.until(lambda: bench.monitors["o"].count, limit=40, what="the first payload")
    await bench.finish(limit=len(sent), quiet=1)


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
