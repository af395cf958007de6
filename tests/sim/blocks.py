# amaranth: UnusedElaboratable=no
"""The blocks of streams and of handshake join under their benches, at the sizes of the tests."""

from collections.abc import Callable
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from unittest import mock

from amaranth.lib import data, wiring

from eddyline_hw import window as windows
from eddyline_hw.handshake import asynchronous, matcher
from eddyline_hw.handshake import held_window as held_windows
from eddyline_hw.handshake import lockstep as locksteps
from eddyline_hw.handshake import lockstep_core as cores
from eddyline_hw.handshake import operator as operators
from eddyline_hw.stream import arbiter as arbiters
from eddyline_hw.stream import broadcast as broadcasts
from eddyline_hw.stream import buffer as buffers
from eddyline_hw.stream import crossing as crossings
from eddyline_hw.stream import fifo as fifos
from eddyline_hw.stream import mailbox as mailboxes
from eddyline_hw.stream import merge as merges
from eddyline_hw.stream import tickets
from sim.benches.run import run_bench
from sim.benches.stalls import stalling_queues
from tests.hw.handshake.joins import band_plan

__all__ = [
    "Block", "admission", "arbiter", "async_chain", "broadcast_tree", "buffer", "core", "crossing",
    "fifo", "held_window", "lockstep_chain", "mailbox", "merge_tree", "merger", "operator",
    "replaced", "ticket_queue", "window",
]  # fmt: skip

PLAIN = data.StructLayout({"way": 4, "number": 8})
PUNCTUATED = data.StructLayout({"star": 1, "way": 4, "number": 8})


@dataclass(frozen=True)
class Block:
    """A block, the bench it goes under and what the bench has to know.

    The functions of this module make these. They take the block's class from ``module``, and the
    classes of its parts from other keywords: a mutant replaces one of them.
    """

    component: wiring.Component
    bench: str
    parameters: dict = field(default_factory=dict)
    around: Callable = nullcontext  # makes a context in which the block is compiled

    def run(self, **options):
        """Run the bench; return how many cocotb tests it had."""
        with self.around():
            return run_bench(
                self.component,
                bench=f"sim.benches.{self.bench}",
                name=type(self.component).__name__.lower(),
                parameters=self.parameters,
                **options,
            )


def arbiter(ways, *, module=arbiters):
    return Block(module.RoundRobinArbiter(ways), "arbiter", {"ways": ways})


def fifo(depth, *, memory="lutram", module=fifos):
    parameters = {"capacity": depth, "counted": True}
    return Block(module.Fifo(12, depth=depth, memory=memory), "fifo", parameters)


def mailbox(depth, *, module=mailboxes):
    parameters = {"capacity": depth, "counted": False, "interval": 2}
    return Block(module.Mailbox(12, depth=depth), "fifo", parameters)


def buffer(*, module=buffers):
    return Block(module.Buffer(12), "fifo", {"capacity": 2, "counted": False})


def ticket_queue(*, flight, lag, depth=16, module=tickets, **classes):
    """Make a queue of tickets with bodies of more than one slice."""
    parts = partial(replaced, module, classes)
    with parts():
        component = module.TicketQueue(4, 40, depth=depth, flight=flight, lag=lag)
    parameters = {
        "depth": depth,
        "flight": flight,
        "lag": lag,
        "latency": component.latency,
    }
    return Block(component, "tickets", parameters, parts)


def crossing(*, module=crossings):
    return Block(module.AsyncFifo(8, depth=4, o_domain="merge"), "crossing")


def merger(ways, *, stars, module=merges):
    component = module.Merger(PUNCTUATED if stars else PLAIN, ways=ways)
    return Block(component, "merge", {"ways": ways, "stars": stars, "bound": ways})


def merge_tree(inputs, *, fan_in, depth=2, bound, module=merges, **classes):
    """Make a merge tree; ``bound`` is the product of the largest groups of its levels."""
    component = module.MergeTree(PUNCTUATED, inputs=inputs, fan_in=fan_in, depth=depth)
    parameters = {"ways": inputs, "stars": True, "bound": bound}
    return Block(component, "merge", parameters, partial(replaced, module, classes))


def broadcast_tree(outputs, *, fan_out, module=broadcasts):
    tree = module.BroadcastTree(12, outputs=outputs, fan_out=fan_out)
    return Block(tree, "broadcast", {"outputs": outputs, "latency": tree.latency})


def window(kind, *, slots, lanes, module=windows):
    """Make a window of the lock-step chain."""
    if kind == "shift":
        component = module.ShiftWindow(8, slots=slots, lanes=lanes)
    else:
        component = module.RingWindow(8, slots=slots, lanes=lanes, memory=kind)
    parameters = {
        "slots": slots,
        "lanes": lanes,
        "latency": component.latency,
        "interval": component.interval,
    }
    return Block(component, "window", parameters)


def held_window(*, memory="lutram", skip_sent, module=held_windows):
    component = module.HeldWindow(8, slots=7, lanes=2, memory=memory, skip_sent=skip_sent)
    parameters = {
        "slots": component.slots,
        "lanes": component.width,
        "latency": component.latency,
        "skip_sent": skip_sent,
    }
    return Block(component, "held_window", parameters)


def _chain(component, bench, sizes, *, stalls=False, **options):
    """Put a chain, or an operator with one, under a bench that sets these sizes of windows."""
    chain = getattr(component, "chain", component)
    merged = chain is not component
    parameters = {
        "plan": component.plan.to_json(),
        "kind": chain.kind,
        "cores": chain.cores,
        "lanes": chain.lanes,
        "stalls": stalls,
        "outputs": ["o"] if merged else [f"o__{core}" for core in range(chain.cores)],
        "domain": "merge" if merged else "sync",
        "settings": [
            {"window_r": r, "window_s": s, "values": component.settings(r, s)} for r, s in sizes
        ],
    }
    return Block(component, bench, parameters, **options)


def lockstep_chain(*, window="auto", module=locksteps, **classes):
    with replaced(module, classes):
        component = module.LockstepChain(
            band_plan(), cores=3, window_r=8, window_s=6, lanes=2, window=window
        )
    return _chain(component, "chain", [(8, 6), (7, 5), (3, 4), (2, 6), (1, 1)])


def async_chain(*, as_printed=False, stalls=True, module=asynchronous, **classes):
    """Make an asynchronous chain, all of whose queues stall at random unless told otherwise."""
    with replaced(module, classes):
        component = module.AsyncChain(
            band_plan(), cores=3, window_r=5, window_s=4, lanes=2, as_printed=as_printed
        )
    around = partial(stalling_queues, module, matcher) if stalls else nullcontext
    sizes = [(5, 4), (4, 3), (2, 4), (1, 1)]
    return _chain(component, "chain", sizes, stalls=stalls, around=around)


def operator(chain, *, module=operators):
    component = module.HandshakeJoin(
        band_plan(), chain=chain, fan_in=2, cores=3, window_r=6, window_s=4, lanes=1
    )
    return _chain(component, "chain", [(6, 4), (5, 2)])


def core(*, window="auto", module=cores, **classes):
    # A ring has at least three rows.
    segments, lanes = ({"r": 5, "s": 6} if window == "lutram" else {"r": 3, "s": 4}), 2
    # The player stops one cycle after the throttle; until then rows are under way in the windows
    # and comparators, and the step in progress has some left.
    margin = 3 + 10
    with replaced(module, classes):
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
    return Block(component, "core", parameters)


def admission(kind, **classes):
    """Make a chain that soon has more results than it can send."""
    module, name = {
        "lockstep": (locksteps, "LockstepChain"),
        "asynchronous": (asynchronous, "AsyncChain"),
    }[kind]
    with replaced(module, classes):
        component = getattr(module, name)(band_plan(), cores=2, window_r=6, window_s=6, lanes=3)
    return _chain(component, "admission", [(6, 5)])


@contextmanager
def replaced(module, classes):
    """Let ``module`` make its parts from other classes, for a mutant of a part."""
    with ExitStack() as stack:
        for name, replacement in classes.items():
            stack.enter_context(mock.patch.object(module, name, replacement))
        yield
