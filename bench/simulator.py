"""The simulator device against the same design under cocotb on Verilator, in cycles per second.

All feed random tuples as fast as they are taken and collect all results; all models are compiled
with the same optimisation. Under cocotb there are two peers: a bench with drivers and monitors, as
every bench of this repository has them, and the leanest loop that cocotb allows, which checks
nothing.
"""

import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from bench.clock import cpu_seconds

CORES, SEGMENT, TUPLES, COCOTB_CYCLES = 4, 8, 100_000, 10_000


def measure() -> Iterator[str]:
    import sim.benches.build
    from eddyline_hw.layouts import message_layout
    from eddyline_sim.build import FAST
    from eddyline_sim.simulation import Simulation
    from sim.benches.run import run_bench

    operator = _operator()
    layout = message_layout(operator.plan)
    settings = operator.settings(CORES * SEGMENT, CORES * SEGMENT)
    words = np.random.default_rng(1).integers(
        0, 1 << 32, (TUPLES, -(-layout.size // 32)), dtype=np.uint32
    )
    for name in ("star", "flush"):
        at = layout[name].offset
        words[:, at // 32] &= ~np.uint32(1 << at % 32)
    with Simulation(operator, name=f"handshake-{CORES}") as simulation:
        for name, value in settings.items():
            simulation.set(name, value)
        simulation.reset()
        seconds = cpu_seconds(lambda: simulation.run(words, until_star=False))
        mine = simulation.cycles / 3 / seconds  # of three runs alike
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        compile_command = sim.benches.build._compile(FAST)
        # Benches are compiled to be ready soon; here the speed of the model counts.
        with mock.patch.object(sim.benches.build, "_compile", return_value=compile_command):
            run_bench(
                _operator(),
                bench="bench.simulator",
                name="simulator_benchmark",
                parameters={
                    "result": str(result),
                    "settings": settings,
                    "clear": [layout[name].offset for name in ("star", "flush")],
                    "width": layout.size,
                },
            )
        peers = json.loads(result.read_text())
    for what, peer in peers.items():
        yield (
            f"{mine / peer:.0f} x {what} under cocotb at {CORES} cores"
            f" ({mine / 1e3:.0f} k against {peer / 1e3:.1f} k cycles/s)"
        )


def _operator():
    from eddyline.plan import All, Compare, Layout, Order, Plan, Window, Word
    from eddyline_hw.handshake.operator import HandshakeJoin

    r = Layout((Word("x", 32, False, "r.x"),), ())
    s = Layout((Word("lo", 32, False, "s.lo"), Word("hi", 32, False, "s.hi")), ())
    predicate = All((Compare(0, "ge", 0), Compare(0, "le", 1)))
    rows = Window("rows", CORES * SEGMENT)
    return HandshakeJoin(
        Plan(r, s, predicate, rows, rows, Order("none"), False, 32),
        cores=CORES,
        window_r=rows.size,
        window_s=rows.size,
        lanes=SEGMENT,
    )


def _note(what: str, rate: float) -> None:
    """Add a rate to those that the benchmark will read."""
    path = Path(json.loads(os.environ["EDDYLINE_BENCH"])["parameters"]["result"])
    rates = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(rates | {what: rate}))


@cocotb.test()
async def run_with_drivers(dut):
    from sim.benches.environment import Bench, parameters

    bench = Bench(dut, clocks={"o": "merge"}, periods={"merge": 10})
    for name, value in (parameters()["settings"] | {"selected": 0}).items():
        bench.set(name, value)
    await bench.start()
    rng = random.Random(1)
    words = (rng.getrandbits(32) for _ in range(4 * COCOTB_CYCLES))
    entries = zip(words, words, words, strict=False)
    bench.send(
        "i",
        [
            {"star": 0, "flush": 0, "side": x & 1, "entry": {"r": {"id": x, "words": {"x": lo}}}}
            if x & 1 == 0
            else {"star": 0, "flush": 0, "side": 1,
                  "entry": {"s": {"id": x, "words": {"lo": lo, "hi": lo + hi & 0xFFFFFFFF}}}}
            for x, lo, hi in entries
        ],
    )  # fmt: skip
    began = time.process_time()
    await bench.cycles(COCOTB_CYCLES)
    _note("a bench with drivers and monitors", COCOTB_CYCLES / (time.process_time() - began))
    assert bench.monitors["o"].count


@cocotb.test()
async def run_under_cocotb(dut):
    setup = json.loads(os.environ["EDDYLINE_BENCH"])["parameters"]
    for name, value in setup["settings"].items():
        getattr(dut, name).value = value
    clear = ~sum(1 << at for at in setup["clear"])
    dut.i__valid.value = 0
    dut.o__ready.value = 1
    for signal in (dut.clk, dut.merge_clk):
        Clock(signal, 10, "ns").start()
    for level in (1, 0):
        dut.rst.value = dut.merge_rst.value = level
        for _ in range(8):
            await RisingEdge(dut.clk)
    rng, results, edge, settled = random.Random(1), [], RisingEdge(dut.clk), ReadOnly()
    dut.i__valid.value = 1
    began = time.process_time()
    for _ in range(COCOTB_CYCLES):
        await settled
        taken = dut.i__ready.value
        if dut.o__valid.value:
            results.append(dut.o__payload.value)
        await edge
        if taken:
            dut.i__payload.value = rng.getrandbits(setup["width"]) & clear
    seconds = time.process_time() - began
    assert results
    _note("the leanest loop", COCOTB_CYCLES / seconds)
