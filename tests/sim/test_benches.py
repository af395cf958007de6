"""Every block of gateware as compiled RTL, under its cocotb bench."""

import pytest
from amaranth.lib import data

from eddyline_hw.stream.arbiter import RoundRobinArbiter
from eddyline_hw.stream.broadcast import BroadcastTree
from eddyline_hw.stream.buffer import Buffer
from eddyline_hw.stream.fifo import AsyncFifo, Fifo
from eddyline_hw.stream.merge import Merger, MergeTree
from sim.benches.run import run_bench

PLAIN = data.StructLayout({"way": 4, "number": 8})
PUNCTUATED = data.StructLayout({"star": 1, "way": 4, "number": 8})


@pytest.mark.parametrize("ways", [3, 8])
def test_arbiter(ways):
    run_bench(
        RoundRobinArbiter(ways),
        bench="sim.benches.arbiter",
        name="arbiter",
        parameters={"ways": ways},
    )


@pytest.mark.parametrize(("depth", "memory"), [(4, "lutram"), (5, "bram")])
def test_fifo(depth, memory):
    run_bench(
        Fifo(12, depth=depth, memory=memory),
        bench="sim.benches.fifo",
        name="fifo",
        parameters={"capacity": depth + 1, "counted": True},
    )


def test_buffer():
    run_bench(
        Buffer(12),
        bench="sim.benches.fifo",
        name="buffer",
        parameters={"capacity": 2, "counted": False},
    )


def test_queue_between_clocks():
    run_bench(AsyncFifo(8, depth=4, o_domain="merge"), bench="sim.benches.crossing", name="queue")


@pytest.mark.parametrize(("ways", "shape"), [(3, PLAIN), (8, PUNCTUATED)])
def test_merger(ways, shape):
    run_bench(
        Merger(shape, ways=ways),
        bench="sim.benches.merge",
        name="merger",
        parameters={"ways": ways, "stars": shape is PUNCTUATED, "bound": ways},
    )


@pytest.mark.parametrize(
    ("inputs", "fan_in", "depth", "bound"),
    [(4, 2, 2, 2 * 2), (5, 3, 2, 2 * 3), (6, 4, 3, 2 * 3), (9, 8, 2, 2 * 5)],
)
def test_merge_tree(inputs, fan_in, depth, bound):
    run_bench(
        MergeTree(PUNCTUATED, inputs=inputs, fan_in=fan_in, depth=depth),
        bench="sim.benches.merge",
        name="merge_tree",
        # A node is fair to its children, so an input's turn comes after the largest groups.
        parameters={"ways": inputs, "stars": True, "bound": bound},
    )


@pytest.mark.parametrize(("outputs", "fan_out"), [(3, 4), (5, 2)])
def test_broadcast_tree(outputs, fan_out):
    tree = BroadcastTree(12, outputs=outputs, fan_out=fan_out)
    run_bench(
        tree,
        bench="sim.benches.broadcast",
        name="broadcast_tree",
        parameters={"outputs": outputs, "latency": tree.latency},
    )
