"""What is measured of PanJoin's structures, as in figures 10 to 13 of its paper."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from eddyline.cli.bench.speedup import PEER, speedups
from eddyline.cli.bench.steps import Steps
from eddyline.cli.bench.subwindow import BUFFER, Point, Rate, Subwindow
from eddyline.engine.indexed import SIGMA
from eddyline.engine.structure import Balance, Structure
from eddyline.streams import PanJoin

__all__ = ["NAMES", "Figure", "Sizes", "figures", "measure"]

Row = dict[str, Any]

NAMES = {"rap": "RaP-Table", "wib": "WiB+-Tree", "bisort": "BI-Sort", "hash": "hash"}
NUMBERS = {"rap": "10", "wib": "11", "bisort": "12"}
SAMPLED = 16  # tuples of which BI-Sort's index has one: a cache line
LOOKUPS = 1 << 15  # the paper's batch against selectivity
SMALL = 1 << 16  # the subwindow of figure 12f
BUFFERS = (0, 16, 64, 256, 1024, 4096)
# Share of the keys that is covered, or standard deviation as such; and number of peaks.
DISTRIBUTIONS = (
    ("uniform", 1.0, 1),
    ("uniform", 0.1, 4),
    ("normal", 0.05, 1),
    ("normal", 0.01, 4),
    ("ranksize", 0.01, 1),
)
ADJUSTMENTS = 4
ADJUSTED = 1 << 20  # tuples of a subwindow at most; errors depend on those of a partition
TUPLE = 8  # bytes: a key and a reference


@dataclass(frozen=True)
class Sizes:
    """Tuples of a subwindow and of batches, tuples per partition, partners of a lookup."""

    subwindow: int
    subwindows: tuple[int, ...]
    batches: tuple[int, ...]
    partition: int
    partitions: tuple[int, ...]
    selectivities: tuple[int, ...]
    runs: int

    @classmethod
    def chosen(cls, *, full: bool) -> Self:
        if full:
            return cls(
                subwindow=1 << 23,
                subwindows=(1 << 16, 1 << 20, 1 << 23),
                batches=(64, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 23),
                partition=128,
                partitions=(16, 128, 1024),
                selectivities=(1, 16, 256, 1024, 4096, 1 << 14),
                runs=3,
            )
        return cls(
            subwindow=1 << 20,
            subwindows=(1 << 16, 1 << 18, 1 << 20),
            batches=(64, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20),
            partition=128,
            partitions=(16, 128, 1024),
            selectivities=(1, 16, 256, 4096),
            runs=3,
        )


@dataclass(frozen=True)
class Figure:
    """A table of throughputs: along ``x``, one of a point's fields, for several columns."""

    name: str
    title: str
    x: str
    columns: dict[str, list[Point]]


def figures(sizes: Sizes) -> Iterator[Figure]:
    """Yield what is to be measured. Figures share points; 13 has only points of others."""
    for engine in NUMBERS:
        yield from _figures_of(engine, sizes)
    yield _buffers()
    every = sizes.subwindow // sizes.partition
    yield Figure(
        "13a",
        "Insertion",
        "batch",
        {
            NAMES[engine]: _grid(engine, "insert", sizes, batch=sizes.batches, partitions=every)
            for engine in NAMES
        },
    )
    yield Figure(
        "13b",
        f"Band, batches of {LOOKUPS}",
        "selectivity",
        {
            NAMES[engine]: _grid(
                engine, "band", sizes, batch=LOOKUPS, partitions=every,
                selectivity=sizes.selectivities,
            )
            for engine in NUMBERS
        },
    )  # fmt: skip
    yield Figure(
        "13c",
        "Equality, one partner (not in the paper)",
        "batch",
        {
            NAMES[engine]: _grid(engine, "equal", sizes, batch=sizes.batches, partitions=every)
            for engine in NAMES
        },
    )


def measure(sizes: Sizes, steps: Steps) -> Row:
    """Measure all figures."""
    planned = list(figures(sizes))
    steps.expect(len(planned) + 3)
    subwindow = Subwindow(sizes.runs)
    rates: dict[Point, Rate] = {}

    def rate(point: Point) -> Rate:
        if point not in rates:
            name = "B-tree" if point.engine == PEER else NAMES[point.engine]
            steps.detail(f"{name}, batches of {point.batch}")
            rates[point] = subwindow.measure(point)
        return rates[point]

    for figure in planned:
        steps.begin(f"figure {figure.name}")
        for point in (one for column in figure.columns.values() for one in column):
            rate(point)
    steps.begin("figure 11f")
    speedup = speedups(sizes.subwindow, sizes.batches, sizes.selectivities, rate)
    steps.begin("figure 10f")
    errors = _errors(sizes, steps)
    steps.begin("memory")
    memory = _memory(sizes)
    return {
        "sizes": asdict(sizes),
        "figures": [
            {
                "name": figure.name,
                "title": figure.title,
                "x": figure.x,
                "columns": {
                    name: [rates[point].row() for point in points]
                    for name, points in figure.columns.items()
                },
            }
            for figure in planned
        ],
        "speedup": speedup,
        "errors": errors,
        "memory": memory,
        "spread": _spread(rates.values()),
    }


def _figures_of(engine: str, sizes: Sizes) -> Iterator[Figure]:
    number, name = NUMBERS[engine], NAMES[engine]
    whole = sizes.subwindow
    # BI-Sort's partitions are cache lines, whatever the others have.
    counts = [whole // size for size in reversed(sizes.partitions)]
    if engine == "bisort":
        counts = [whole // SAMPLED]
    every = whole // sizes.partition
    against = {"batch": LOOKUPS, "selectivity": sizes.selectivities}
    yield Figure(
        f"{number}a",
        f"{name}, insertion, N = {_short(whole)}",
        "batch",
        {
            f"P = {_short(p)}": _grid(engine, "insert", sizes, batch=sizes.batches, partitions=p)
            for p in counts
        },
    )
    yield Figure(
        f"{number}b",
        f"{name}, insertion" + ("" if engine == "bisort" else f", P = {_short(every)}"),
        "batch",
        {
            f"N = {_short(n)}": _grid(
                engine, "insert", sizes, subwindow=n, partitions=every,
                batch=[one for one in sizes.batches if one <= n],
            )
            for n in sizes.subwindows
        },
    )  # fmt: skip
    fixed: dict[str, Any]
    for letter, operation, x, fixed, title in (
        ("c", "equal", "batch", {"batch": sizes.batches}, "equality, one partner"),
        ("d", "equal", "selectivity", against, f"equality, batches of {LOOKUPS}"),
        ("e", "band", "selectivity", against, f"band, batches of {LOOKUPS}"),
    ):
        columns = {
            f"P = {_short(p)}": _grid(engine, operation, sizes, partitions=p, **fixed)
            for p in counts
        }
        if operation == "equal":
            columns["hash"] = _grid("hash", operation, sizes, partitions=0, **fixed)
        yield Figure(f"{number}{letter}", f"{name}, {title}", x, columns)


def _buffers() -> Figure:
    def points(operation: str, batch: int) -> list[Point]:
        return [
            Point(
                "bisort", operation, SMALL, batch, SMALL // SAMPLED,
                buffer=buffer, buffered=operation != "insert",
            )
            for buffer in BUFFERS
        ]  # fmt: skip

    return Figure(
        "12f",
        f"BI-Sort, insertion buffer, N = {_short(SMALL)}",
        "buffer",
        {f"insertion, batches of {batch}": points("insert", batch) for batch in (1, 16, 256)}
        | {"band, batches of 256, full buffer": points("band", 256)},
    )


def _grid(engine: str, operation: str, sizes: Sizes, **fields: Any) -> list[Point]:
    """Return points along the one field that has several values."""
    common = {"subwindow": sizes.subwindow} | fields
    if engine == "bisort":
        common["partitions"] = common["subwindow"] // SAMPLED
    elif engine == "hash":
        common["partitions"] = 0
    along = next(name for name, value in fields.items() if not isinstance(value, int))
    return [
        Point(engine=engine, operation=operation, **(common | {along: value}))
        for value in fields[along]
    ]


def _errors(sizes: Sizes, steps: Steps) -> list[Row]:
    """Adjust a RaP-Table's splitters again and again, on ever new tuples of a distribution.

    ``best`` is the error with the exact quantiles of the subwindow before, which the adjustment
    only estimates: what is left is chance, and equal keys that are more than a partition.
    """
    rows = []
    count = min(sizes.subwindow, ADJUSTED)
    for distribution, spread, modes in DISTRIBUTIONS:
        for partition in sizes.partitions[1:]:
            partitions = count // partition
            steps.detail(f"{distribution}, {partitions} partitions")
            stream = PanJoin(
                rows=count * (ADJUSTMENTS + 1),
                seed=1,
                distribution=distribution,
                spread=spread,
                modes=modes,
            )
            splitters, before = None, None
            errors, best = [], 0.0
            for batch in stream.batches("r", count):
                keys = batch["value"].to_numpy()
                balance = _spread_over(keys, partitions, splitters)
                errors.append(balance.error)
                splitters = balance.splitters
                if before is not None:
                    exact = np.sort(before)[np.arange(1, partitions) * count // partitions]
                    best = _spread_over(keys, partitions, exact).error
                before = keys
            rows.append(
                {
                    "distribution": f"{distribution[0].upper()}({spread:g}, {modes})",
                    "partitions": partitions,
                    "error": errors,
                    "best": best,
                }
            )
    return rows


def _spread_over(keys: np.ndarray, partitions: int, splitters: np.ndarray | None) -> Balance:
    table = Structure("rap", capacity=len(keys), partitions=partitions, splitters=splitters)
    table.insert(keys, np.arange(len(keys)))
    return table.balance()


def _memory(sizes: Sizes) -> list[Row]:
    """Bytes per tuple: while tuples come in, sealed, and what the paper's formulas promise."""
    count = sizes.subwindow
    partitions = count // sizes.partition
    keys = np.random.default_rng(1).integers(0, 1 << 32, count, dtype=np.uint32)
    refs = np.arange(count, dtype=np.uint32)
    llat = SIGMA * 2  # (N / P * sigma) * 2 P / N: the overhead and what it comes on top of
    promised = {
        "rap": TUPLE * llat + 3 * 4 / sizes.partition + 4 / sizes.partition,
        "wib": TUPLE * llat + 4 / sizes.partition,
        "bisort": TUPLE + 4 / SAMPLED + BUFFER * TUPLE / count,
        "hash": None,
    }
    rows = []
    for engine, formula in promised.items():
        for intervals in (False, True):
            if engine == "hash" and intervals:
                continue
            one = Structure(
                engine, capacity=count, partitions=partitions, buffer=BUFFER, intervals=intervals
            )
            one.insert(keys, refs, keys if intervals else None, batch=count // 16)
            growing = one.report()["bytes"] / count
            one.seal()
            rows.append(
                {
                    "engine": NAMES[engine],
                    "stored": "intervals" if intervals else "values",
                    "open": growing,
                    "sealed": one.report()["bytes"] / count,
                    "formula": None if intervals else formula,
                }
            )
    return rows


def _spread(rates: Iterable[Rate]) -> Row:
    spreads = [rate.spread for rate in rates]
    return {
        "points": len(spreads),
        "median": float(np.median(spreads)),
        "nine_in_ten": float(np.quantile(spreads, 0.9)),
        "most": max(spreads),
    }


def _short(number: int) -> str:
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if number >= unit and number % unit == 0:
            return f"{number // unit}{letter}"
    return str(number)
