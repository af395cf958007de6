# amaranth: UnusedElaboratable=no
"""The blocks under their benches, at the sizes the tests use."""

from dataclasses import dataclass, field

from amaranth.lib import data, wiring

from eddyline_hw.stream import arbiter as arbiters
from eddyline_hw.stream import broadcast as broadcasts
from eddyline_hw.stream import buffer as buffers
from eddyline_hw.stream import fifo as fifos
from eddyline_hw.stream import merge as merges
from sim.benches.run import run_bench

__all__ = [
    "Block", "arbiter", "broadcast_tree", "buffer", "crossing", "fifo", "merge_tree", "merger",
]  # fmt: skip

PLAIN = data.StructLayout({"way": 4, "number": 8})
PUNCTUATED = data.StructLayout({"star": 1, "way": 4, "number": 8})


@dataclass(frozen=True)
class Block:
    """A block, the bench it goes under and what the bench has to know.

    The functions of this module make these. They take the block's class from ``module``, which a
    mutant replaces.
    """

    component: wiring.Component
    bench: str
    parameters: dict = field(default_factory=dict)

    def run(self, seed=1):
        """Run the bench; return how many cocotb tests it had."""
        return run_bench(
            self.component,
            bench=f"sim.benches.{self.bench}",
            name=type(self.component).__name__.lower(),
            seed=seed,
            parameters=self.parameters,
        )


def arbiter(ways, *, module=arbiters):
    return Block(module.RoundRobinArbiter(ways), "arbiter", {"ways": ways})


def fifo(depth, *, memory="lutram", module=fifos):
    # The output register is one more place.
    parameters = {"capacity": depth + 1, "counted": True}
    return Block(module.Fifo(12, depth=depth, memory=memory), "fifo", parameters)


def buffer(*, module=buffers):
    return Block(module.Buffer(12), "fifo", {"capacity": 2, "counted": False})


def crossing(*, module=fifos):
    return Block(module.AsyncFifo(8, depth=4, o_domain="merge"), "crossing")


def merger(ways, *, stars, module=merges):
    component = module.Merger(PUNCTUATED if stars else PLAIN, ways=ways)
    return Block(component, "merge", {"ways": ways, "stars": stars, "bound": ways})


def merge_tree(inputs, *, fan_in, depth=2, bound, module=merges):
    """Make a merge tree; ``bound`` is the product of the largest groups of its levels."""
    component = module.MergeTree(PUNCTUATED, inputs=inputs, fan_in=fan_in, depth=depth)
    return Block(component, "merge", {"ways": inputs, "stars": True, "bound": bound})


def broadcast_tree(outputs, *, fan_out, module=broadcasts):
    tree = module.BroadcastTree(12, outputs=outputs, fan_out=fan_out)
    return Block(tree, "broadcast", {"outputs": outputs, "latency": tree.latency})
