"""Speed of both models, with full history: BiStream's figures 7, 8 and 9, as ratios to the matrix.

Units run one after the other in this process, and what counts is processor time: throughput is rows
of both sides for all time that routing and units took, and latency what a batch takes until its
last pair is out if every unit has a core of its own, so routing and the slowest unit. Both are
without the network. Queries are an equality, as in the paper's Q5, and a band.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from bench.biclique import BAND, EQUALITY, SCHEMA
from eddyline.api import make_query
from eddyline.biclique.routing import Router, Routing, make_routing
from eddyline.biclique.unit import Sent, Unit
from eddyline.query import Query

# Units and subgroups of a biclique, or rows and columns of the matrix that all are compared with.
MODELS: dict[str, tuple[int | tuple[int, int], int | None]] = {
    "4 x 4 matrix": ((4, 4), None),
    "8 units, random": (8, 1),
    "16 units, random": (16, 1),
    "16 units, 4 subgroups": (16, 4),
    "16 units, 8 subgroups": (16, 8),
}
BATCHES, ROWS, VALUES = 32, 1 << 15, 1 << 20  # rows of a side in a batch, and their values
QUARTERS = 4  # parts of the run, for throughput against what is stored


@dataclass
class Run:
    """Seconds of processor time of each batch: in all, and until its last pair is out."""

    whole: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    pairs: int = 0


def measure(batches: int = BATCHES, rows: int = ROWS) -> Iterator[str]:
    for on in (EQUALITY, BAND):
        query = make_query(SCHEMA, SCHEMA, on, window="unbounded", time="t")
        yield f"{on}, {batches * rows:,} rows of each side, throughput by quarter, and latency:"
        yield (
            "| model | throughput | first quarter | second | third | last "
            "| latency: median | 25 % | 75 % |"
        )
        base = None
        for name, (units, subgroups) in MODELS.items():
            run = _run(query, make_routing(query, units, subgroups), batches, rows)
            base = base or run
            if run.pairs != base.pairs:
                raise AssertionError(f"{name} finds {run.pairs} pairs, not {base.pairs}")
            speeds = [its / own for its, own in zip(_parts(base), _parts(run), strict=True)]
            middle = np.median(base.latency)
            spread = [np.percentile(run.latency, at) / middle for at in (50, 25, 75)]
            told = " | ".join(f"{one:.2f}" for one in (*speeds, *spread))
            yield f"| {name} | {told} |"


def _parts(run: Run) -> list[float]:
    """Return seconds of the whole, and of each quarter."""
    quarters = np.array_split(np.array(run.whole), QUARTERS)
    return [sum(run.whole), *(float(one.sum()) for one in quarters)]


def _run(query: Query, routing: Routing, batches: int, rows: int) -> Run:
    routers = [Router(query, side, routing) for side in "rs"]
    all_units = [Unit(query, "cpu?threads=1", units=routing.shares) for _ in range(routing.units)]
    run = Run()
    for number in range(batches):
        whole = [_rows(side, number * rows, rows) for side in (0, 1)]
        began = time.process_time()
        sent = [_shown(router, *part, routing) for router, part in zip(routers, whole, strict=True)]
        routed = time.process_time() - began
        took = []
        for place, unit in enumerate(all_units):
            began = time.process_time()
            run.pairs += sum(len(one) for one in unit.join(*(side[place] for side in sent)))
            took.append(time.process_time() - began)
        run.whole.append(routed + sum(took))
        run.latency.append(routed + max(took))
    for unit in all_units:
        unit.close()
    return run


def _shown(
    router: Router, rows: pa.RecordBatch, spread: np.ndarray, routing: Routing
) -> list[Sent]:
    """Return what every unit is shown of a batch."""
    shown = defaultdict(list)
    for home, mine, seen_by in router.ways(rows, spread):
        for unit in seen_by:
            shown[unit].append((mine, np.full(len(mine), routing.stores(home, unit))))
    sent = []
    for unit in range(routing.units):
        parts = shown[unit] or [(np.empty(0, np.int64), np.empty(0, bool))]
        places, stores = (np.concatenate(one) for one in zip(*parts, strict=True))
        sent.append(Sent(rows.take(pa.array(places)), stores))
    return sent


def _rows(side: int, first: int, count: int) -> tuple[pa.RecordBatch, np.ndarray]:
    rng = np.random.default_rng([side, first])
    t = np.arange(first, first + count)
    columns = [t, rng.integers(0, VALUES, count).astype(np.int32), 3 * t]
    rows = pa.RecordBatch.from_arrays([pa.array(one) for one in columns], schema=SCHEMA)
    return rows, rng.integers(-(2**63), 2**63 - 1, count)
