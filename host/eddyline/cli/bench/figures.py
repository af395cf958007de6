"""Tables, CSV files and plots of what was measured of PanJoin's structures."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eddyline.cli.bench.svg import Line, plot
from eddyline.cli.bench.table import table

__all__ = ["write"]

Results = dict[str, Any]
UNIT = "million tuples per CPU-second"
SPEEDUP = "Figure 11f: WiB+-Tree, times as fast as a plain B-tree"


def write(results: Results, folder: Path) -> str:
    """Write results.json, the same as CSV, tables.md and the plots; return the tables."""
    text = "\n".join(_tables(results))
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "tables.md").write_text(text + "\n")
    _csv(folder / "throughput.csv", _measured(results))
    _csv(folder / "speedup.csv", results["speedup"])
    _csv(folder / "adjustment.csv", _errors(results))
    _csv(folder / "memory.csv", results["memory"])
    for name, picture in _plots(results):
        (folder / f"{name}.svg").write_text(picture)
    return text


def _measured(results: Results) -> Iterable[Results]:
    for figure in results["figures"]:
        for series, rows in figure["columns"].items():
            for row in rows:
                yield {"figure": figure["name"], "series": series} | row


def _errors(results: Results) -> Iterable[Results]:
    for row in results["errors"]:
        for adjustments, error in enumerate(row["error"]):
            yield row | {"adjustments": adjustments, "error": error}


def _csv(path: Path, rows: Iterable[Results]) -> None:
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _tables(results: Results) -> Iterable[str]:
    spread = results["spread"]
    yield (
        f"Throughput is in {UNIT}, the median of {results['sizes']['runs']} runs. From the slowest "
        f"to the fastest run it is {spread['median']:.0%} of it at half of the "
        f"{spread['points']} points, {spread['nine_in_ten']:.0%} at nine in ten, "
        f"{spread['most']:.0%} at most."
    )
    yield ""
    for figure in results["figures"]:
        yield from (f"## Figure {figure['name']}: {figure['title']}", "")
        columns = figure["columns"]
        values = sorted({row[figure["x"]] for rows in columns.values() for row in rows})
        found = {
            (name, row[figure["x"]]): row["median"]
            for name, rows in columns.items()
            for row in rows
        }
        yield from table(
            " | ".join([figure["x"], *columns]),
            ([x, *(_rate(found.get((name, x))) for name in columns)] for x in values),
        )
    yield from ("## Figure 10f: normalised error of a RaP-Table's partitions", "")
    adjustments = range(len(results["errors"][0]["error"]))
    yield from table(
        " | ".join(["distribution", "P", *(f"after {n}" for n in adjustments), "exact quantiles"]),
        (
            [row["distribution"], row["partitions"], *row["error"], row["best"]]
            for row in results["errors"]
        ),
    )
    yield from (f"## {SPEEDUP}", "")
    names = list(results["speedup"][0])
    yield from table(
        " | ".join(names),
        ([row["batch"], *(_rate(row[name]) for name in names[1:])] for row in results["speedup"]),
    )
    yield from ("## Bytes per tuple of 8 bytes", "")
    yield from table(
        "structure | stored | open | sealed | paper",
        (
            [row["engine"], row["stored"], row["open"], row["sealed"], row["formula"] or ""]
            for row in results["memory"]
        ),
    )


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _plots(results: Results) -> Iterable[tuple[str, str]]:
    for figure in results["figures"]:
        x = figure["x"]
        lines = [
            Line(name, [(max(row[x], 1), row["median"]) for row in rows])
            for name, rows in figure["columns"].items()
        ]
        title = f"{figure['name']}: {figure['title']}"
        yield (
            f"figure_{figure['name']}",
            plot(title, lines, x=x, y=UNIT, log_x=4, log_y=10),
        )
    rows = results["speedup"]
    lines = [
        Line(name, [(row["batch"], row[name]) for row in rows])
        for name in rows[0]
        if name != "batch"
    ]
    title = SPEEDUP.removeprefix("Figure ")
    yield "figure_11f", plot(title, lines, x="batch", y="times as fast", log_x=4, log_y=10)
    most = max(row["partitions"] for row in results["errors"])
    yield (
        "figure_10f",
        plot(
            f"10f: normalised error, P = {most}",
            [
                Line(row["distribution"], list(enumerate(row["error"])))
                for row in results["errors"]
                if row["partitions"] == most
            ],
            x="adjustments",
            y="mean deviation from even partitions",
        ),
    )
