# amaranth: UnusedElaboratable=no
"""The blocks under their benches, at the sizes the tests use."""

from collections.abc import Callable
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from unittest import mock

from amaranth import Module
from amaranth.lib import data, wiring

from eddyline.plan import Window, in_rows
from eddyline_hw import window as windows
from eddyline_hw.handshake import asynchronous, matcher
from eddyline_hw.handshake import held_window as held_windows
from eddyline_hw.handshake import lockstep as locksteps
from eddyline_hw.handshake import lockstep_core as cores
from eddyline_hw.handshake import operator as operators
from eddyline_hw.splitjoin import combiner as combiners
from eddyline_hw.splitjoin import core as split_cores
from eddyline_hw.splitjoin import matcher as split_matchers
from eddyline_hw.splitjoin import operator as split_operators
from eddyline_hw.splitjoin import region as regions
from eddyline_hw.splitjoin import switch as switches
from eddyline_hw.splitjoin.precision import Precision, order_settings
from eddyline_hw.stream import arbiter as arbiters
from eddyline_hw.stream import broadcast as broadcasts
from eddyline_hw.stream import buffer as buffers
from eddyline_hw.stream import crossing as crossings
from eddyline_hw.stream import fifo as fifos
from eddyline_hw.stream import mailbox as mailboxes
from eddyline_hw.stream import merge as merges
from sim.benches.run import run_bench
from sim.benches.stalls import stalling_queues
from tests.hw.handshake.joins import band_plan

__all__ = [
    "Block", "admission", "arbiter", "async_chain", "broadcast_tree", "buffer", "combiner", "core",
    "crossing", "fifo", "held_window", "lockstep_chain", "mailbox", "merge_tree", "merger",
    "operator", "split_join", "split_join_time", "steered_merger", "steered_tree", "window",
]  # fmt: skip

PLAIN = data.StructLayout({"way": 4, "number": 8})
STEERED = data.StructLayout({"star": 1, "ordered": 1, "way": 4, "number": 8})
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


def crossing(*, module=crossings):
    return Block(module.AsyncFifo(8, depth=4, o_domain="merge"), "crossing")


def merger(ways, *, stars, module=merges):
    component = module.Merger(PUNCTUATED if stars else PLAIN, ways=ways)
    return Block(component, "merge", {"ways": ways, "stars": stars, "bound": ways})


def merge_tree(inputs, *, fan_in, depth=2, bound, module=merges, **classes):
    """Make a merge tree; ``bound`` is the product of the largest groups of its levels."""
    component = module.MergeTree(PUNCTUATED, inputs=inputs, fan_in=fan_in, depth=depth)
    parameters = {"ways": inputs, "stars": True, "bound": bound}
    return Block(component, "merge", parameters, partial(_replaced, module, classes))


def steered_merger(ways, *, module=merges):
    component = module.Merger(STEERED, ways=ways, steered=True)
    return Block(component, "steered", {"ways": ways, "levels": 1})


def steered_tree(inputs, *, fan_in, module=merges):
    component = module.MergeTree(STEERED, inputs=inputs, fan_in=fan_in, steered=True)
    return Block(component, "steered", {"ways": inputs, "levels": component.levels})


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


def lockstep_chain(*, window="auto", module=locksteps, **classes):
    with _replaced(module, classes):
        component = module.LockstepChain(
            band_plan(), cores=3, window_r=8, window_s=6, lanes=2, window=window
        )
    return _chain(component, "chain", [(8, 6), (7, 5), (3, 4), (2, 6), (1, 1)])


def async_chain(*, as_printed=False, stalls=True, module=asynchronous, **classes):
    """Make an asynchronous chain, all of whose queues stall at random unless told otherwise."""
    with _replaced(module, classes):
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


def core(*, window="auto", module=cores, **classes):
    # A ring has at least three rows.
    segments, lanes = ({"r": 5, "s": 6} if window == "lutram" else {"r": 3, "s": 4}), 2
    # The player stops one cycle after the throttle; until then rows are under way in the windows
    # and comparators, and the step in progress has some left.
    margin = 3 + 10
    with _replaced(module, classes):
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
    with _replaced(module, classes):
        component = getattr(module, name)(band_plan(), cores=2, window_r=6, window_s=6, lanes=3)
    return _chain(component, "admission", [(6, 5)])


ORDERS = [
    (Precision.NONE, 1),
    (Precision.OUTER, 1),
    (Precision.OUTER, 5),
    (Precision.INNER, 1),
    (Precision.INNER, 2),
    (Precision.INNER, 64),
]


class Hung(split_cores.SplitCore):
    """A core that takes nothing and offers garbage."""

    def elaborate(self, platform):
        m = Module()
        m.submodules += [*self.regions.values(), self.sequencer, self.matcher]
        m.d.comb += [port.valid.eq(1) for port in self.o]
        return m


def split_join(*, stalls=False, hung=(), module=split_operators, core=split_cores, **classes):
    """Make an operator whose trees have two levels.

    With ``stalls`` all queues and buffers inside stall at random, those at the root and at the
    leaves of the trees among them. Cores in ``hung`` do.
    """
    replaced = partial(_replaced_anywhere, module, core, classes)
    with replaced():
        component = module.SplitJoin(
            band_plan(), cores=3, window_r=27, window_s=24, lanes=2, fan_in=2, fan_out=2
        )
    for number in hung:
        component.core[number].__class__ = Hung
    sizes = [(27, 24), (8, 6), (7, 5), (3, 4), (2, 24), (1, 1)]
    parameters = {
        "plan": component.plan.to_json(),
        "cores": component.cores,
        "stalls": stalls,
        "hung": list(hung),
        "settings": [
            {"rows": {"r": r, "s": s}, "values": _windows(component.settings(r, s))}
            for r, s in sizes
        ],
        "orders": _orders(),
    }
    around = partial(_stalling_split_join, module, core) if stalls else replaced
    return Block(component, "splitjoin", parameters, around)


def split_join_time(*, timed="rs", module=split_operators, core=split_cores, **classes):
    """Make an operator over windows of time; a side not ``timed`` has a window without an end."""
    windows = {side: Window("time" if side in timed else "unbounded", 1) for side in "rs"}
    plan = replace(band_plan(), window_r=windows["r"], window_s=windows["s"], timed=True)
    replaced = partial(_replaced_anywhere, module, core, classes)
    with replaced():
        component = module.SplitJoin(
            in_rows(plan, 1), cores=2, window_r=16, window_s=12, lanes=2, fan_in=2, fan_out=2
        )
    kept = "".join(side for side in "rs" if side not in timed)
    settings = []
    for r, s in [(16, 12), (11, 9), (4, 5)]:
        values = component.settings(r, s, keep_r="r" in kept, keep_s="s" in kept)
        # All slots are used, so a capacity is rounded up.
        rows = {side: -(-size // 2) * 2 for side, size in (("r", r), ("s", s))}
        settings.append({"rows": rows, "values": _windows(values)})
    parameters = {
        "plan": component.plan.to_json(),
        "cores": component.cores,
        "timed": timed,
        "kept": kept,
        "rows": min(component.rows("r", 16), component.rows("s", 12)),
        "settings": settings,
        "orders": [one for one in _orders() if one[:2] != ("INNER", 64)],
    }
    return Block(component, "splitjoin_time", parameters, replaced)


def _windows(settings):
    return {
        name: value for name, value in settings.items() if name not in order_settings(*ORDERS[0])
    }


def _orders():
    return [(mode.name, every, order_settings(mode, every)) for mode, every in ORDERS]


@contextmanager
def _replaced_anywhere(module, core, classes):
    """Let operator, cores and regions make their parts from other classes."""
    classes = classes | {"SplitCore": core.SplitCore}
    with ExitStack() as stack:
        for owner in (module, core, regions):
            own = {name: one for name, one in classes.items() if hasattr(owner, name)}
            stack.enter_context(_replaced(owner, own))
        yield


def _stalling_split_join(*modules):
    parts = (split_matchers, switches, combiners, broadcasts, merges)
    return stalling_queues(*modules, *parts, buffers=True)


def combiner(*, module=combiners):
    return Block(module.Combiner(band_plan()), "combiner")


@contextmanager
def _replaced(module, classes):
    """Let ``module`` make its parts from other classes, for a mutant of a part."""
    with ExitStack() as stack:
        for name, replacement in classes.items():
            stack.enter_context(mock.patch.object(module, name, replacement))
        yield
