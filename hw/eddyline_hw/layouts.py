"""Plan to Amaranth layouts: the only place where gateware learns what a tuple looks like."""

from amaranth.lib import data

from eddyline.plan import Layout, Plan

__all__ = ["result_layout", "side_layout", "tuple_layout"]


def side_layout(layout: Layout) -> data.StructLayout:
    """Return words, validity bits and flags of one side's tuples.

    A word that may be invalid has a bit ``<name>_valid`` right above it; flags are named ``f0``,
    ``f1`` and so on.
    """
    members: dict[str, int] = {}
    for word in layout.words:
        members[word.name] = word.width
        if word.optional:
            members[f"{word.name}_valid"] = 1
    members |= {f"f{number}": 1 for number in range(len(layout.flags))}
    return data.StructLayout(members)


def tuple_layout(plan: Plan) -> data.StructLayout:
    """Return what travels into an operator: a tuple of either side.

    ``side`` is 0 for R and 1 for S and says which view of ``words`` is meant. ``time`` is there
    only if a window needs it.
    """
    members: dict[str, object] = {"side": 1, "id": plan.id_bits}
    if "time" in (plan.window_r.kind, plan.window_s.kind):
        members["time"] = 64
    sides = {"r": side_layout(plan.r), "s": side_layout(plan.s)}
    return data.StructLayout({**members, "words": data.UnionLayout(sides)})


def result_layout(plan: Plan) -> data.StructLayout:
    """Return what travels out: a pair of row ids, or a star that closes the pairs before it."""
    return data.StructLayout({"star": 1, "r_id": plan.id_bits, "s_id": plan.id_bits})
