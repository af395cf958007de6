"""Plan to Amaranth layouts: the only place where gateware learns what a tuple looks like."""

from collections.abc import Iterable

from amaranth.lib import data

from eddyline.plan import Layout, Plan

__all__ = ["entry_layout", "message_layout", "part_layout", "result_layout", "side_layout"]


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


def entry_layout(plan: Plan) -> data.UnionLayout:
    """Return what a window slot holds: a tuple seen as R's or as S's."""
    return data.UnionLayout(
        {
            side: data.StructLayout({"id": plan.id_bits, "words": side_layout(plan.layout(side))})
            for side in "rs"
        }
    )


def message_layout(plan: Plan) -> data.StructLayout:
    """Return what travels into an operator: a tuple of either side, or a punctuation.

    ``side`` is 0 for R and 1 for S and says which view of ``entry`` is meant. A message with
    ``star`` carries no tuple; it comes out again behind all pairs of the messages before it.
    With ``flush`` as well, the windows are emptied and the remaining pairs meet before that.
    """
    return data.StructLayout({"star": 1, "flush": 1, "side": 1, "entry": entry_layout(plan)})


def part_layout(plan: Plan, carried: Iterable[str] = ()) -> data.UnionLayout:
    """Return what one tuple adds to a result: its id, and from R also the ``carried`` words."""
    widths = {word.name: word.width for word in plan.r.words}
    keys = {name: widths[name] for name in carried}
    return data.UnionLayout(
        {
            "r": data.StructLayout({"id": plan.id_bits, **keys}),
            "s": data.StructLayout({"id": plan.id_bits}),
        }
    )


def result_layout(plan: Plan, carried: Iterable[str] = ()) -> data.StructLayout:
    """Return what travels out: a pair of ids, or a star that closes the pairs before it.

    Words of R in ``carried`` come along: a 32-bit key beside two 32-bit ids gives the 96-bit
    result of the handshake paper.
    """
    parts = part_layout(plan, carried)
    words = {name: field.shape for name, field in parts["r"].shape if name != "id"}
    return data.StructLayout({"star": 1, "r_id": plan.id_bits, "s_id": plan.id_bits, **words})
