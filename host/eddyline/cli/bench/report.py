"""Tables and plots of what was measured."""

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from eddyline.cli.bench.svg import Line, plot
from eddyline.cli.bench.table import table

__all__ = ["knee", "write"]

Results = dict[str, Any]


def write(results: Results, folder: Path) -> str:
    """Write results.json, tables.md and the plots; return the tables."""
    text = "\n".join(_tables(results))
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "tables.md").write_text(text + "\n")
    for name, picture in _plots(results):
        (folder / f"{name}.svg").write_text(picture)
    return text


def knee(rows: list[Results]) -> float:
    """Return the smallest match rate that slows the input down by more than a hundredth."""
    alone = rows[0]["cycles_per_tuple"]
    slowed = [row["match_rate"] for row in rows if row["cycles_per_tuple"] > 1.01 * alone]
    return min(slowed, default=1.0)


def _by_load(results: Results) -> Iterable[tuple[str, list[Results]]]:
    """Yield what was measured against the match rate, by shape and order."""
    for (cores, lanes, order), rows in groupby(
        results["matches"], lambda row: (row["cores"], row["lanes"], row["order"])
    ):
        yield f"k = {cores}, P = {lanes}, {order}", list(rows)


def _tables(results: Results) -> Iterable[str]:
    slots = results["sizes"]["slots"]
    yield from ("## Latency and its formula", "")
    names = ("cores", "fan_out", "fan_in", "lanes", "slots", "order")
    parts = ("distribution", "rows", "stages", "gathering", "promised", "measured")
    yield from table(
        "k | b | c | P | slots | order | distribution | rows | stages | gathering | formula"
        " | measured",
        ([row[name] for name in (*names, *parts)] for row in results["formula"]),
    )
    lockstep = ("handshake_lockstep", "handshake_visiting")
    yield from (f"## Latency against cores, {slots} slots per core, one comparator each", "")
    yield from table(
        "k | SplitJoin | fast forwarding (our model) | lock-step handshake, last pair | mean pair",
        (
            [row["cores"], row["splitjoin"], row["fast_forward_model"], *(row[n] for n in lockstep)]
            for row in results["latency"]
        ),
    )
    yield from (f"## Mean cycles per stage, {slots} slots per core", "")
    stages = ("load", "cores", "distribution", "execution", "gathering", "processing", "visiting")
    model = ("model_processing", "model_visiting")
    for load in ("alone", "saturated"):
        yield from table(
            "load | k | distribution | execution | gathering | processing | visiting"
            " | processing (our model) | visiting (our model)",
            (
                [row[name] for name in (*stages, *model)]
                for row in results["stages"]
                if row["load"] == load
            ),
        )
    cores = results["throughput"]["cores"]
    yield from (f"## Throughput against precision, {cores} cores", "")
    yield from table(
        "order | scan | pairs and stars | cycles per tuple",
        (
            [r[n] for n in ("order", "scan", "items", "cycles_per_tuple")]
            for r in results["precision"]
        ),
    )
    yield from (f"## Throughput against match rate, {slots} slots per core", "")
    for name, rows in _by_load(results):
        yield from (f"{name}:", "")
        yield from table(
            "match rate | cycles per tuple | bound | results per cycle",
            (
                [
                    f"{row['match_rate']:.1%}",
                    row["cycles_per_tuple"],
                    float(row["bound"]),
                    row["results_per_cycle"],
                ]
                for row in rows
            ),
        )
        bound = 1 / (rows[0]["cores"] * rows[0]["lanes"])
        yield (
            f"The knee is expected at 1 / (k P) = {bound:.1%}; measured, the input is slower from "
            f"{knee(rows):.1%} on."
        )
        yield ""
    yield from ("## Comparators at saturation, the least busy core", "")
    columns = ("cores", "lanes", "input", "order", "scan")
    yield from table(
        "k | P | input | order | cycles per scan | busy | comparing",
        (
            [*(r[name] for name in columns), f"{r['busy']:.2%}", f"{r['comparing']:.2%}"]
            for r in results["duty"]
        ),
    )


def _plots(results: Results) -> Iterable[tuple[str, str]]:
    slots, cores = results["sizes"]["slots"], results["throughput"]["cores"]

    def line(name: str, table: str, y: str, load: str = "", *, dashed: bool = False) -> Line:
        rows = [row for row in results[table] if not load or row["load"] == load]
        return Line(name, [(row["cores"], row[y]) for row in rows], dashed)

    yield (
        "latency",
        plot(
            f"Latency against cores ({slots} slots per core)",
            [
                line("SplitJoin", "latency", "splitjoin"),
                line("fast forward (our model)", "latency", "fast_forward_model", dashed=True),
                line("lock-step handshake", "latency", "handshake_lockstep"),
            ],
            x="cores",
            y="cycles until complete",
            log_x=2,
            log_y=10,
        ),
    )
    yield (
        "visiting",
        plot(
            f"Visiting latency against cores, tuples alone ({slots} slots per core)",
            [
                line("SplitJoin", "stages", "visiting", "alone"),
                line("fast forward (our model)", "stages", "model_visiting", "alone", dashed=True),
                line("lock-step handshake, pair out", "latency", "handshake_visiting"),
            ],
            x="cores",
            y="mean cycles until a pair is compared",
            log_x=2,
            log_y=10,
        ),
    )
    for load in ("alone", "saturated"):
        yield (
            f"stages_{load}",
            plot(
                f"Latency of each stage ({'tuples alone' if load == 'alone' else load})",
                [
                    line(name, "stages", name, load)
                    for name in ("processing", "visiting", "distribution", "execution", "gathering")
                ],
                x="cores",
                y="mean cycles",
                log_x=2,
            ),
        )
    order = list(enumerate(results["precision"]))
    short = [row["order"].replace("outer:", "o").replace("inner:", "i") for _, row in order]
    yield (
        "precision",
        plot(
            f"Throughput against precision ({cores} cores)",
            [
                Line("measured", [(n, 1000 / row["cycles_per_tuple"]) for n, row in order]),
                Line("comparators alone", [(n, 1000 / row["scan"]) for n, row in order], True),
            ],
            x="order, ever more exact (o: outer, i: inner)",
            y="tuples per 1000 cycles",
            names=dict(enumerate(short)),
        ),
    )
    _, loaded = next(iter(_by_load(results)))
    rates = [(100 * row["match_rate"], row) for row in loaded]
    yield (
        "matches",
        plot(
            f"Throughput against match rate ({cores} cores)",
            [
                Line("measured", [(x, 1000 / row["cycles_per_tuple"]) for x, row in rates]),
                Line("scan or results", [(x, 1000 / row["bound"]) for x, row in rates], True),
            ],
            x="pairs that match, %",
            y="tuples per 1000 cycles",
        ),
    )
