"""Show how a join is lowered: words, comparators, what an index can use, windows in bytes.

eddyline explain r.parquet s.parquet --on "r.x BETWEEN s.a-10 AND s.a+10"
"""

import argparse
from collections.abc import Iterator

from eddyline.cli.query import add_engine_argument, add_query_arguments, query_of, sources_of
from eddyline.engine.access import Dimension, comparisons
from eddyline.engine.choice import Choice, among_workers, choose
from eddyline.plan import SYMBOLS, All, Any_, Compare, Flag, Layout, Plan, Predicate
from eddyline.query import Query

__all__ = ["add_arguments", "describe", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_query_arguments(parser)
    add_engine_argument(parser)
    parser.add_argument(
        "--workers", type=int, default=0, help="explain cpu?workers=N, where that differs"
    )
    parser.add_argument("--json", action="store_true", help="print the plan itself, as JSON")


def run(args: argparse.Namespace) -> int:
    query = query_of(args, *sources_of(args))
    text = describe(query, args.engine or "auto", args.workers)
    print(query.plan.to_json() if args.json else "\n".join(text))
    return 0


def describe(query: Query, engine: str = "auto", workers: int = 0) -> Iterator[str]:
    """Yield the lines that explain a query, and why this engine joins it, or how."""
    plan = query.plan
    yield f"plan        {plan.digest[:16]}"
    for side in "rs":
        yield from _layout(side, plan.layout(side))
    yield f"predicate   {_text(plan.predicate, plan)}"
    found = list(comparisons(plan.predicate))
    widths = sorted({plan.r.words[one.r].width for one in found})
    counted = ", ".join(
        f"{sum(plan.r.words[c.r].width == width for c in found)} of {width} bits"
        for width in widths
    )
    yield f"comparators {counted or 'none'}"
    choice = choose(plan, engine)
    if workers:
        choice = among_workers(choice)
    yield f"engine      {choice.engine}, {choice.reason}"
    for number, line in enumerate(_lookups(plan, choice)):
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


def _lookups(plan: Plan, choice: Choice) -> Iterator[str]:
    """Say what an index is asked for, and what is left to test."""
    for path in choice.paths or []:
        sign = "<>" if path.unequal else "="
        parts = [f"{_r(plan, one)} {sign} {_s(plan, one)}" for one in path.equal]
        parts += [_overlap(plan, dimension) for dimension in path.dimensions]
        cells = choice.engine == "grid"
        if len(path.dimensions) == 2 and not cells:
            parts[0] += " in strips"
        left = len(path.undecided if cells else path.residual) + len(path.excluded)
        yield " and ".join(parts) + (f"; {left} more tested on what it finds" if left else "")


def _overlap(plan: Plan, dimension: Dimension) -> str:
    """Name the side that has a value, and the bounds of the other."""
    value, bounds = sorted("rs", key=lambda side: len(set(dimension.words(side))))
    word = plan.layout(value).words[dimension.words(value)[0]]
    low, high = (f"{bounds}.w{i}" if i >= 0 else "anything" for i in dimension.words(bounds))
    return f"{value}.{word.name} ({word.text}) between {low} and {high}"


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
