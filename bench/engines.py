"""The cpu device against DuckDB, Polars and Spark in their best forms, on one core.

What counts is processor time, from the words of a batch of 64K tuples to pairs of row numbers; the
peers begin and end with Arrow tables (docs/engines-peers.md), as ``eddyline.join`` does. Medians of
three runs, with the spread of their processor time. Spark has the shorter stream, since it needs
minutes for the longer one, and so has the band with 64 partners, whose pairs fill the memory.
"""

import os
from collections.abc import Iterator

from bench.peers.duckdb_peer import DuckDB
from bench.peers.numpy_peer import Numpy
from bench.peers.ours import Device, Ranges, Whole
from bench.peers.participant import Participant
from bench.peers.participant import measure as measured
from bench.peers.polars_peer import Polars
from bench.peers.spark_peer import Spark
from bench.peers.workloads import Workload, band, band_2d, equality

SMALL, LARGE = 1 << 16, 1 << 20
ROWS = 1 << 21


def measure() -> Iterator[str]:
    load = os.getloadavg()[0]
    yield f"{len(os.sched_getaffinity(0))} cores, wanted by {load:.1f} processes of late"
    nested = Numpy(comparisons=1 << 27)
    usual: list[Participant] = [DuckDB(), Polars(), Whole()]
    yield from compared(band(2 * ROWS, LARGE), [*usual, Ranges(), nested])
    yield from compared(band(3 * ROWS // 4, LARGE, selectivity=64), [*usual, Ranges()])
    yield from compared(band(ROWS, LARGE), [Spark()])
    for window in (SMALL, LARGE):
        yield from compared(band_2d(2 * ROWS, window), usual)
        yield from compared(equality(2 * ROWS, window), usual)
    work = band(2 * ROWS, LARGE)
    for batch in (1 << 10, 1 << 13, 1 << 16):
        yield f"{work.name}, batches of {batch}: {rate(Device(batch=batch), work):.2f} M tuples/s"
    yield f"band, window 1K, batches of 1: {rate(Device(batch=1), band(1 << 14, 1 << 10)):.3f} M/s"
    for each in (work, band_2d(ROWS, LARGE), equality(2 * ROWS, LARGE)):
        one, two = (measured(Device(threads=n), each).wall_seconds for n in (1, 2))
        yield f"{each.name}: two threads take the wall time of one divided by {one / two:.2f}"


def compared(work: Workload, peers: list[Participant]) -> Iterator[str]:
    """Measure ours and the peers one after the other, and give the ratios."""
    ours = Device()
    result = measured(ours, work)
    yield (
        f"{work.name}, {work.rows:,} rows a side: {work.tuples / result.cpu_seconds / 1e6:.2f} M "
        f"tuples per CPU-second, {result.pairs / result.cpu_seconds / 1e6:.0f} M pairs "
        f"({ours.plan(work)}, spread {result.spread:.0%})"
    )
    for peer in peers:
        other = measured(peer, work)
        if not other.extrapolated and not isinstance(peer, Ranges):
            assert other.pairs == result.pairs, f"{peer.name} finds {other.pairs} pairs"
        about = "about " if other.extrapolated else ""
        yield (
            f"  {about}{other.cpu_seconds / result.cpu_seconds:.3g} x {peer.name}, on the wall "
            f"{other.wall_seconds / result.wall_seconds:.3g} x "
            f"({peer.plan(work)}, spread {other.spread:.0%})"
        )


def rate(ours: Device, work: Workload) -> float:
    return work.tuples / measured(ours, work).cpu_seconds / 1e6
