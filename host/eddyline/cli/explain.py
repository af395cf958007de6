"""Show how a join is lowered: words, comparators, what an index can use, windows in bytes.

eddyline explain r.parquet s.parquet --on "r.x BETWEEN s.a-10 AND s.a+10"
"""

import argparse
from collections.abc import Iterator

from eddyline.cli.query import add_query_arguments, query_of, sources_of
from eddyline.plan import SYMBOLS, All, Any_, Compare, Flag, Layout, Plan, Predicate, bands
from eddyline.query import Query

__all__ = ["add_arguments", "describe", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_query_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the plan itself, as JSON")


def run(args: argparse.Namespace) -> int:
    query = query_of(args, *sources_of(args))
    print(query.plan.to_json() if args.json else "\n".join(describe(query)))
    return 0


def describe(query: Query) -> Iterator[str]:
    """Yield the lines that explain a query."""
    plan = query.plan
    yield f"plan        {plan.digest[:16]}"
    for side in "rs":
        yield from _layout(side, plan.layout(side))
    yield f"predicate   {_text(plan.predicate, plan)}"
    comparisons = list(_comparisons(plan.predicate))
    widths = sorted({plan.r.words[one.r].width for one in comparisons})
    counted = ", ".join(
        f"{sum(plan.r.words[c.r].width == width for c in comparisons)} of {width} bits"
        for width in widths
    )
    yield f"comparators {counted or 'none'}"
    for number, line in enumerate(_indexable(plan)):
        yield f"{'index' if number == 0 else '':11} {line}"
    for side, spec in (("r", query.window_r), ("s", query.window_s)):
        yield f"window {side}    {spec}, {_size(plan, side)}"
    yield f"order       {plan.order.kind}{f':{plan.order.every}' if plan.order.every else ''}"
    if query.time:
        yield f"time        r.{query.time[0]}, s.{query.time[1]}"
    else:
        yield "time        none: rows are taken alternately, r first"
    yield f"result      {', '.join(output.name for output in query.outputs)}"


def _layout(side: str, layout: Layout) -> Iterator[str]:
    bits = layout.device_bits
    yield f"tuple {side}     {bits} bits: {len(layout.words)} words, {len(layout.flags)} flags"
    for word in layout.words:
        optional = ", may be invalid" if word.optional else ""
        yield f"  {word.name:4} {word.width:3} bits  {word.text}{optional}"
    for number, flag in enumerate(layout.flags):
        yield f"  f{number:<3}   1 bit   {flag}"


def _text(node: Predicate, plan: Plan) -> str:
    match node:
        case All(()):
            return "TRUE"
        case Any_(()):
            return "FALSE"
        case All(parts):
            return " AND ".join(
                f"({_text(part, plan)})" if isinstance(part, Any_) else _text(part, plan)
                for part in parts
            )
        case Any_(parts):
            return " OR ".join(
                f"({_text(part, plan)})" if isinstance(part, All) else _text(part, plan)
                for part in parts
            )
        case Flag(side, index):
            return f"{side}.f{index}"
        case Compare(r, op, s):
            return f"r.{plan.r.words[r].name} {SYMBOLS[op]} s.{plan.s.words[s].name}"


def _comparisons(node: Predicate) -> Iterator[Compare]:
    if isinstance(node, Compare):
        yield node
    elif isinstance(node, All | Any_):
        for part in node.parts:
            yield from _comparisons(part)


def _indexable(plan: Plan) -> Iterator[str]:
    """Say which comparisons every pair must satisfy: those an index can look up."""
    node = plan.predicate
    parts = node.parts if isinstance(node, All) else (node,)
    pairs, single = bands(parts)
    found = False
    for low, high in pairs:
        found = True
        if low.r == high.r:
            yield f"band: {_r(plan, low)} between s.w{low.s} and s.w{high.s}"
        else:
            yield f"band: {_s(plan, low)} between r.w{high.r} and r.w{low.r}"
    for one in single:
        if one.op != "ne":
            found = True
            kind = "equality" if one.op == "eq" else "range"
            yield f"{kind}: {_r(plan, one)} {SYMBOLS[one.op]} {_s(plan, one)}"
    if not found:
        yield "none: every pair is compared"


def _r(plan: Plan, compare: Compare) -> str:
    return f"r.w{compare.r} ({plan.r.words[compare.r].text})"


def _s(plan: Plan, compare: Compare) -> str:
    return f"s.w{compare.s} ({plan.s.words[compare.s].text})"


def _size(plan: Plan, side: str) -> str:
    window = plan.window(side)
    # A stored tuple also keeps its id and, in a time window, its timestamp.
    bits = plan.layout(side).device_bits + plan.id_bits + 64 * (window.kind == "time")
    per_tuple = -(-bits // 8)
    if window.kind == "rows":
        return f"{_bytes(window.size * per_tuple)} at {per_tuple} bytes per tuple"
    return f"{per_tuple} bytes per tuple"


def _bytes(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.4g} GiB"
