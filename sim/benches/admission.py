"""Bench of the admission policies: what is dropped is counted, and nothing else is missing."""

import random
from collections import Counter, deque

import cocotb
from cocotb.triggers import RisingEdge

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.joins import Results, Traffic, difference

KIND, CORES = parameters()["kind"], parameters()["cores"]
SETTING = parameters()["settings"][0]
POLICIES = {"wait": 0, "drop_new": 1, "drop_results": 2}
OUTPUTS = parameters()["outputs"]
STALLS = "throttled" if KIND == "lockstep" else "waited"  # cycles in which a tuple had to wait
COVERAGE = Coverage("throttle", "tuple dropped", "result dropped", "star waits for room")


async def run(dut, policy, *, values, stall):
    """Push tuples in as fast as they are taken; return everything that has to do with them."""
    bench = Bench(dut, stall=stall)
    for name, value in SETTING["values"].items():
        bench.set(name, value)
    bench.set("policy", POLICIES[policy])
    bench.set("selected", 0)
    await bench.start()
    await bench.cycles(6)
    sizes = {side: SETTING[side] for side in ("window_r", "window_s")}
    traffic = Traffic(parameters()["plan"], kind=KIND, cores=CORES, **sizes)
    for _ in range(4):
        for _ in range(40):
            traffic.random_tuple(random, values=values)
        traffic.star(flush=random.random() < 0.5)
    traffic.star(flush=True)
    results = Results(bench, OUTPUTS)
    dropped = set()
    cocotb.start_soon(note_dropped(bench, dropped))
    bench.watch(
        lambda: COVERAGE.hit(
            "star waits for room",
            bench.monitors["i"].stalled and bench.get(STALLS) and at_star(bench),
        )
    )
    bench.send("i", traffic.messages)
    await bench.until(
        lambda: results.stars == len(traffic.epochs), limit=30_000, what="the last star"
    )
    lost = 0
    for core in range(CORES):
        bench.set("selected", core)
        await bench.cycles(8)
        lost += bench.get("dropped_results")
    return bench, traffic, results, dropped, lost


def at_star(bench):
    _, _, bits = bench.monitors["i"].sample()
    return bench.ports["i"].payload.decode(bits)["star"]


async def note_dropped(bench, dropped):
    """Note the places of messages after which the counter of dropped tuples has gone up."""
    edge = RisingEdge(bench.dut.clk)
    place, before = -1, 0
    # The source of the asynchronous chain counts a cycle late.
    recent = deque([(False, -1)] * (2 if KIND == "asynchronous" else 1))
    while True:
        await edge
        now = bench.get("dropped_tuples")
        taken, number = recent.popleft()
        assert now - before == 0 or taken, "a tuple was dropped that had not come"
        if now > before:
            dropped.add(number)
        before = now
        taken = bool(bench.dut.i__valid.value and bench.dut.i__ready.value)
        place += taken
        recent.append((taken, place))


@cocotb.test()
@cocotb.parametrize(values=(1, 3), stall=("never", "bursts", "on demand"))
async def wait_loses_nothing(dut, values, stall):
    bench, traffic, results, dropped, lost = await run(dut, "wait", values=values, stall=stall)
    assert not dropped
    assert lost == 0, f"{lost} results were dropped"
    wrong = difference(results.epochs, traffic.epochs)
    assert not wrong, wrong
    COVERAGE.hit("throttle", bench.get(STALLS))


@cocotb.test()
@cocotb.parametrize(values=(1, 3), stall=("never", "bursts", "droughts", "on demand"))
async def drop_new_joins_what_it_admits(dut, values, stall):
    bench, traffic, results, dropped, lost = await run(dut, "drop_new", values=values, stall=stall)
    assert bench.get("dropped_tuples") == len(dropped)
    assert lost == 0, f"{lost} results were dropped"
    admitted = traffic.again(set(range(len(traffic.messages))) - dropped)
    wrong = difference(results.epochs, admitted.epochs)
    assert not wrong, wrong
    COVERAGE.hit("tuple dropped", dropped)


@cocotb.test()
@cocotb.parametrize(values=(1, 3), stall=("never", "bursts", "on demand"))
async def drop_results_counts_what_is_missing(dut, values, stall):
    _, traffic, results, dropped, lost = await run(dut, "drop_results", values=values, stall=stall)
    assert not dropped
    came = sum(results.epochs, Counter())
    due = sum(traffic.epochs, Counter())
    kept = [Counter({pair: 1 for pair in epoch if pair in came}) for epoch in traffic.epochs]
    wrong = difference(results.epochs, kept)
    assert not wrong, wrong
    missing = due.total() - came.total()
    assert missing == lost, f"{missing} results are missing, {lost} were counted"
    COVERAGE.hit("result dropped", lost)


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
