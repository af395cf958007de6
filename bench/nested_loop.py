"""The cpu device's nested loop against numpy and DuckDB, two-dimensional band, one core.

All three evaluate the same predicate on the same number of pairs (rows of R times rows of S).
"""

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from bench.clock import cpu_seconds
from eddyline.api import make_query
from eddyline.device import Tuples
from eddyline.device.cpu import CpuDevice
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.streams import BAND_2D, SplitJoin

WINDOW = 65_536
PROBES = 8_192


def measure() -> Iterator[str]:
    made = SplitJoin(WINDOW, seed=1)
    r, s = (pa.Table.from_batches(made.batches(side)) for side in "rs")
    for stored, probing in (("r", "s"), ("s", "r")):
        ours = _cpu(r, s, stored)
        numpy = _numpy(r, s, stored)
        yield (
            f"{probing.upper()} probes a window of {WINDOW} {stored.upper()}: "
            f"{ours / 1e9:.2f}e9 comparisons per second and core, {ours / numpy:.1f} x numpy"
        )
    few = s.slice(0, PROBES)
    DUCK = duckdb.connect()
    DUCK.execute("SET threads = 1")
    DUCK.register("r", r)
    DUCK.register("s", few)
    count = f"SELECT count(*) FROM r, s WHERE {BAND_2D}"
    duck = WINDOW * PROBES / cpu_seconds(lambda: DUCK.execute(count).fetchall())
    yield (
        f"{_cpu(r, s, 'r') / duck:.1f} x DuckDB's join of {PROBES} with {WINDOW} rows on the same "
        "predicate"
    )


def _cpu(r: pa.Table, s: pa.Table, stored: str) -> float:
    """Return comparisons per second: fill one window, then probe it."""
    query = make_query(r.schema, s.schema, BAND_2D, window=f"rows:{WINDOW}")
    dictionary = Dictionary()
    records = {
        side: SideEncoder(query.lowering.side(side), dictionary, side=side).encode(
            table.combine_chunks().to_batches()[0]
        )
        for side, table in (("r", r), ("s", s))
    }
    probing = "s" if stored == "r" else "r"
    fill = {stored: records[stored], probing: records[probing][:0]}
    probe = {stored: records[stored][:0], probing: records[probing][:PROBES]}
    mark = "rs".index

    def run() -> None:
        device.push(Tuples(np.full(PROBES, mark(probing), np.uint8), probe["r"], probe["s"]))
        while not device.pull().nothing:
            pass

    with CpuDevice(threads=1, engine="nested") as device:
        device.configure(query.plan)
        device.push(Tuples(np.full(WINDOW, mark(stored), np.uint8), fill["r"], fill["s"]))
        while not device.pull().nothing:
            pass
        return WINDOW * PROBES / cpu_seconds(run)


def _numpy(r: pa.Table, s: pa.Table, stored: str) -> float:
    """Return comparisons per second of what one would write with numpy: one probe at a time."""
    x, y = (r[name].to_numpy() for name in ("x", "y"))
    a, b = (s[name].to_numpy() for name in ("a", "b"))
    probes = PROBES // 16

    def run() -> None:
        for i in range(probes):
            if stored == "r":
                np.flatnonzero(
                    (x >= a[i] - 10) & (x <= a[i] + 10) & (y >= b[i] - 10) & (y <= b[i] + 10)
                )
            else:
                np.flatnonzero(
                    (x[i] >= low_a) & (x[i] <= high_a) & (y[i] >= low_b) & (y[i] <= high_b)
                )

    low_a, high_a, low_b, high_b = a - 10, a + 10, b - np.float32(10), b + np.float32(10)
    return WINDOW * probes / cpu_seconds(run)
