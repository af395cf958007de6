# amaranth: UnusedElaboratable=no
"""SplitJoin and its parts under their benches, at the sizes of the tests."""

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from amaranth import Module, Signal

from eddyline.plan import Window, in_rows
from eddyline_hw.splitjoin import (
    collection,
    combiner,
    core,
    exit,
    matcher,
    merger,
    operator,
    region,
)
from eddyline_hw.splitjoin.adaptive import AdaptivePrecision
from eddyline_hw.splitjoin.core import SplitCore
from eddyline_hw.splitjoin.precision import Precision, order_settings
from eddyline_hw.stream import tickets
from sim.benches.stalls import stalling_rooms
from tests.hw.handshake.joins import band_plan
from tests.sim import surroundings
from tests.sim.blocks import Block, replaced

__all__ = ["adaptive", "collected", "combined", "separate", "split_join", "split_join_time"]

ORDERS = [
    (Precision.NONE, 1),
    (Precision.OUTER, 1),
    (Precision.OUTER, 5),
    (Precision.INNER, 1),
    (Precision.INNER, 2),
    (Precision.INNER, 64),
]
# Whoever makes parts of the operator.
MAKERS = (operator, core, region, matcher, collection, merger, exit, tickets)


@contextmanager
def _made_of(classes, *, stalls=False, makers=MAKERS):
    """Let all parts be made from other classes, for a mutant; with ``stalls`` from slow queues."""
    with ExitStack() as stack:
        if stalls:
            stack.enter_context(stalling_rooms(operator, exit, surroundings))
        for maker in makers:
            own = {name: one for name, one in classes.items() if hasattr(maker, name)}
            stack.enter_context(replaced(maker, own))
        yield


def collected(inputs, *, fan_in, bound, stalls=False, **classes):
    """Make a tree of punctuated mergers.

    ``bound`` is the product of the largest groups of its levels. Items come as those of a core do.
    """
    parts = partial(_made_of, classes, stalls=stalls)
    with parts():
        kind = classes.get("CollectionTree", collection.CollectionTree)
        way = {"flight": SplitCore.flight, "lag": SplitCore.lag}
        tree = kind(band_plan(), inputs=inputs, fan_in=fan_in, **way)
        component = surroundings.Collected(tree, **way)
    parameters = {"ways": inputs, "bound": bound, "stalls": stalls}
    return Block(component, "collection", parameters, parts)


def combined(*, stalls=False, module=combiner):
    parts = partial(_made_of, {}, stalls=stalls)
    with parts():
        component = surroundings.Combined(module.Combiner(band_plan()))
    return Block(component, "combiner", {"stalls": stalls}, parts)


class Hung(SplitCore):
    """A core that takes nothing and, once it can be known to be off, sends garbage."""

    def elaborate(self, platform):
        m = Module()
        m.submodules += [*self.regions.values(), self.queue, self.sequencer, self.matcher]
        waited = Signal(range(5))
        with m.If(waited == 4):
            m.d.comb += [self.sends.eq(0b11), self.item.eq(-1)]
        with m.Else():
            m.d.sync += waited.eq(waited + 1)
        return m


def _operator(bench, *, stalls=False, hung=(), module=operator, options=None, **classes):
    """Make an operator whose trees have two levels, for any of its benches."""
    parts = partial(_made_of, classes, stalls=stalls, makers=(module, *MAKERS))
    with parts():
        component = module.SplitJoin(
            band_plan(),
            cores=3,
            window_r=27,
            window_s=24,
            lanes=2,
            fan_in=2,
            fan_out=2,
            **options or {},
        )
    for number in hung:
        component.core[number].__class__ = Hung
    sizes = [(27, 24), (8, 6), (7, 5), (3, 4), (2, 24), (1, 1)]
    parameters = {
        "plan": component.plan.to_json(),
        "cores": component.cores,
        "lanes": component.core[0].lanes,
        "stalls": stalls,
        "hung": list(hung),
        "settings": [
            {"rows": {"r": r, "s": s}, "values": _windows(component.settings(r, s))}
            for r, s in sizes
        ],
        "orders": _orders(),
    }
    return Block(component, bench, parameters, parts)


def split_join(bench="splitjoin", **options):
    """Make an operator for one of the benches of the whole.

    With ``stalls`` all queues inside stall at random at both ends, those at the root and at the
    leaves of the trees among them. Cores in ``hung`` do.
    """
    return _operator(bench, **options)


def separate(**options):
    """Make an operator with an output for each side."""
    return _operator("splitjoin_separate", options={"separate": True}, **options)


def adaptive(*, period=128, most=16, patience=64, **classes):
    """Make an operator that adapts its precision every ``period`` cycles."""
    kind = classes.pop("AdaptivePrecision", AdaptivePrecision)
    quick = partial(kind, period=period, most=most, patience=patience)
    block = _operator("splitjoin_adaptive", AdaptivePrecision=quick, **classes)
    told = {"period": period, "most": most, "coarsest_log": block.component.coarsest_log}
    return replace(block, parameters=block.parameters | told)


def split_join_time(*, timed="rs", stalls=False, module=operator, **classes):
    """Make an operator over windows of time; a side not ``timed`` has a window without an end."""
    windows = {side: Window("time" if side in timed else "unbounded", 1) for side in "rs"}
    plan = replace(band_plan(), window_r=windows["r"], window_s=windows["s"], timed=True)
    parts = partial(_made_of, classes, stalls=stalls, makers=(module, *MAKERS))
    with parts():
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
    return Block(component, "splitjoin_time", parameters, parts)


def _windows(settings):
    return {
        name: value for name, value in settings.items() if name not in order_settings(*ORDERS[0])
    }


def _orders():
    return [(mode.name, every, order_settings(mode, every)) for mode, every in ORDERS]
