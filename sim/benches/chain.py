"""Bench of both handshake chains, bare or merged: every pair once, before its star."""

import random
from math import ceil

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.joins import Results, Traffic, difference

KIND, CORES, LANES = parameters()["kind"], parameters()["cores"], parameters()["lanes"]
SETTINGS = parameters()["settings"]  # of the policy "wait", for some sizes of the windows
OUTPUTS = parameters()["outputs"]
# A message may walk the whole chain before the next one is done: that takes up to 6 cycles in lock
# step and 20 with cores on their own, and four times as long if their queues stall. A result takes
# 3 cycles of a stalled output's clock, whose period is up to 2.3 times the cores'.
CYCLES_PER_MESSAGE = 8 if KIND == "lockstep" else 120 if parameters()["stalls"] else 30
CYCLES_PER_RESULT = 7
CLOCKS = dict.fromkeys(OUTPUTS, parameters()["domain"])
SMALL = [one for one in SETTINGS if min(one["window_r"], one["window_s"]) < CORES]
COVERAGE = Coverage(
    "throttle",
    "flush during stall",
    "wrap-around",
    "window smaller than the chain",
    "results from every output",
    *(["simultaneous results"] if len(OUTPUTS) > 1 else []),
)


async def start(dut, setting, *, idle="never", stall="never"):
    merging = {} if "sync" in CLOCKS.values() else {"merge": random.choice((4, 7, 23))}
    bench = Bench(dut, idle=idle, stall=stall, clocks=CLOCKS, periods=merging)
    for name, value in setting["values"].items():
        bench.set(name, value)
    bench.set("selected", 0)
    await bench.start()
    await bench.cycles(6)  # settings go through registers
    sizes = {side: setting[side] for side in ("window_r", "window_s")}
    traffic = Traffic(parameters()["plan"], kind=KIND, cores=CORES, **sizes)
    COVERAGE.hit("window smaller than the chain", setting in SMALL)
    return bench, traffic, Results(bench, OUTPUTS)


async def run(bench, traffic, results):
    """Send everything, wait for the last star and compare."""
    outputs = [bench.monitors[name] for name in OUTPUTS]

    def cover():
        stalled = any(monitor.stalled for monitor in outputs)
        valid, _, bits = bench.monitors["i"].sample()
        if stalled and valid:
            COVERAGE.hit("flush during stall", bench.ports["i"].payload.decode(bits)["flush"])
        if len(outputs) > 1:
            COVERAGE.hit("simultaneous results", sum(one.transferring for one in outputs) > 1)

    bench.watch(cover)
    bench.send("i", traffic.messages)
    messages = CYCLES_PER_MESSAGE * len(traffic.messages)
    await bench.until(
        lambda: results.stars == len(traffic.epochs),
        limit=500 + messages + CYCLES_PER_RESULT * sum(len(epoch) + 1 for epoch in traffic.epochs),
        what=f"star {len(traffic.epochs)}",
    )
    await bench.cycles(20)
    wrong = difference(results.epochs, traffic.epochs)
    assert not wrong, wrong
    assert not bench.get("dropped_tuples")
    assert not bench.get("overflow")
    COVERAGE.hit("throttle", bench.get("throttled" if KIND == "lockstep" else "waited"))
    COVERAGE.hit("results from every output", all(sum(map(len, one)) for one in results.outputs))
    chain = traffic.chain
    wrapped = traffic.ids["r"] > chain.window_r and traffic.ids["s"] > chain.window_s
    COVERAGE.hit("wrap-around", wrapped)


@cocotb.test()
@cocotb.parametrize(
    setting=SETTINGS,
    patterns=(
        ("never", "never"),
        ("random", "random"),
        ("bursts", "on demand"),
    ),
)
async def every_pair_comes_once(dut, setting, patterns):
    idle, stall = patterns
    bench, traffic, results = await start(dut, setting, idle=idle, stall=stall)
    for _ in range(3):
        share, values = random.choice((0.2, 0.5, 0.5, 0.8)), random.choice((1, 2, 5))
        for _ in range(random.randrange(30)):
            traffic.random_tuple(random, values=values, r_share=share)
            if random.random() < 0.1:
                traffic.star()
        traffic.star(flush=random.random() < 0.6)
    traffic.star(flush=True)
    await run(bench, traffic, results)


@cocotb.test()
@cocotb.parametrize(setting=SETTINGS[:1])
async def the_first_tuples_meet_and_a_flush_of_nothing_is_answered(dut, setting):
    bench, traffic, results = await start(dut, setting)
    traffic.star()
    traffic.star(flush=True)
    traffic.tuple("r", {"x": 1})
    traffic.tuple("s", {"lo": 1, "hi": 1})
    traffic.star(flush=True)
    traffic.tuple("s", {"lo": 0, "hi": 9})
    traffic.star(flush=True)
    traffic.tuple("r", {"x": 1})
    traffic.star(flush=True)
    await run(bench, traffic, results)


@cocotb.test()
@cocotb.parametrize(setting=SETTINGS[:1])
async def all_match_and_nothing_is_lost(dut, setting):
    bench, traffic, results = await start(dut, setting, stall="bursts")
    for _ in range(80):
        traffic.random_tuple(random, values=1)
    traffic.star(flush=True)
    await run(bench, traffic, results)


@cocotb.test(skip=KIND != "lockstep")
@cocotb.parametrize(setting=[one for one in SETTINGS if one not in SMALL])
async def a_tuple_is_admitted_on_every_beat(dut, setting):
    bench, traffic, results = await start(dut, setting)
    for _ in range(40):
        side = random.choice("rs")
        traffic.tuple(side, {"x": 9} if side == "r" else {"lo": 1, "hi": 1})
    beats = []
    bench.monitors["i"].add_callback(lambda message: beats.append((bench.cycle, message["side"])))
    bench.send("i", traffic.messages)
    await bench.until(lambda: len(beats) == 40, limit=4000, what="the last tuple")
    # A tuple is compared with the largest part of the other window that one core holds.
    shares = [ceil(setting[window] / CORES) for window in ("window_s", "window_r")]
    pace = [max(1, ceil(share / LANES)) for share in shares]
    for (cycle, side), (after, _) in zip(beats, beats[1:], strict=False):
        took = after - cycle
        assert took == pace[side], f"a tuple of {'RS'[side]} took {took} cycles, not {pace[side]}"


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
