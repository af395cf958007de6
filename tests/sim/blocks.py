# amaranth: UnusedElaboratable=no
"""The blocks under their benches, at the sizes the tests use."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from amaranth.lib import data, wiring

from eddyline_hw import window as windows
from eddyline_hw.handshake import asynchronous, matcher
from eddyline_hw.handshake import lockstep as locksteps
from eddyline_hw.handshake import lockstep_core as cores
from eddyline_hw.handshake import operator as operators
from eddyline_hw.stream import arbiter as arbiters
from eddyline_hw.stream import broadcast as broadcasts
from eddyline_hw.stream import buffer as buffers
from eddyline_hw.stream import fifo as fifos
from eddyline_hw.stream import merge as merges
from sim.benches.run import run_bench
from sim.benches.stalls import stalling_queues
from tests.hw.handshake.joins import band_plan

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
    around: Callable = nullcontext  # makes a context in which the block is compiled

    def run(self, seed=1):
        """Run the bench; return how many cocotb tests it had."""
        with self.around():
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


def window(kind, *, slots, lanes, module=None):
    """Make a window of the lock-step chain; ``module`` replaces that of its class."""
    component = windows.make_window(8, slots=slots, lanes=lanes, kind=kind)
    if module is not None:
        cls = getattr(module, type(component).__name__)
        memory = {} if kind == "shift" else {"memory": kind}
        component = cls(8, slots=slots, lanes=lanes, **memory)
    parameters = {
        "slots": slots,
        "lanes": lanes,
        "latency": component.latency,
        "interval": component.interval,
    }
    return Block(component, "window", parameters)


def _chain(component, bench, sizes, **options):
    """Put a chain, or an operator with one, under a bench that sets these sizes of windows."""
    chain = getattr(component, "chain", component)
    merged = chain is not component
    parameters = {
        "plan": component.plan.to_json(),
        "kind": chain.kind,
        "cores": chain.cores,
        "lanes": chain.lanes,
        "outputs": ["o"] if merged else [f"o__{core}" for core in range(chain.cores)],
        "domain": "merge" if merged else "sync",
        "settings": [
            {"window_r": r, "window_s": s, "values": component.settings(r, s)} for r, s in sizes
        ],
    }
    return Block(component, bench, parameters, **options)


def lockstep_chain(*, window="auto", module=locksteps):
    component = module.LockstepChain(
        band_plan(), cores=3, window_r=8, window_s=6, lanes=2, window=window
    )
    return _chain(component, "chain", [(8, 6), (7, 5), (3, 4), (2, 6), (1, 1)])


def async_chain(*, as_printed=False, stalls=True, module=asynchronous):
    """Make an asynchronous chain, all of whose queues stall at random unless told otherwise."""
    component = module.AsyncChain(
        band_plan(), cores=3, window_r=5, window_s=4, lanes=2, as_printed=as_printed
    )
    around = partial(stalling_queues, module, matcher) if stalls else nullcontext
    return _chain(component, "chain", [(5, 4), (4, 3), (2, 4), (1, 1)], around=around)


def operator(chain, *, module=operators):
    component = module.HandshakeJoin(
        band_plan(), chain=chain, fan_in=2, cores=3, window_r=6, window_s=4, lanes=1
    )
    return _chain(component, "chain", [(6, 4), (5, 2)])


def core(*, window="auto", module=cores, around=nullcontext):
    segments, lanes = {"r": 3, "s": 4}, 2
    # The player stops one cycle after the throttle; until then rows are under way in the windows
    # and comparators, and the step in progress has some left.
    margin = 2 + 9
    component = module.LockstepCore(
        band_plan(),
        segment_r=segments["r"],
        segment_s=segments["s"],
        lanes=lanes,
        margin=margin,
        window=window,
    )
    parameters = {
        "plan": component.plan.to_json(),
        "segments": segments,
        "lanes": lanes,
        "interval": max(one.interval for one in component.windows.values()),
    }
    return Block(component, "core", parameters, around)


def admission(kind, *, module=None):
    """Make a chain with windows so small that results soon outnumber what can be sent."""
    module = module or {"lockstep": locksteps, "asynchronous": asynchronous}[kind]
    cls = {"lockstep": "LockstepChain", "asynchronous": "AsyncChain"}[kind]
    component = getattr(module, cls)(band_plan(), cores=2, window_r=6, window_s=6, lanes=3)
    return _chain(component, "admission", [(6, 5)])
