"""Print what each peer joins per second of processor time.

All participants run on one core, and each line is the median of several runs. The nested loop is
measured on a part and extrapolated. ``--peers duckdb --workloads equality`` measures less.
"""

import argparse
from collections.abc import Iterator

from bench.peers.duckdb_peer import DuckDB
from bench.peers.numpy_peer import Numpy
from bench.peers.participant import Measurement, Participant, measure
from bench.peers.polars_peer import Polars
from bench.peers.spark_peer import Spark
from bench.peers.workloads import Workload, band, band_2d, equality

PARTICIPANTS: dict[str, Participant] = {
    "duckdb": DuckDB(),
    "polars": Polars(),
    "spark": Spark(),
    "numpy": Numpy(comparisons=1 << 28),
}
WINDOWS = [1 << 16, 1 << 20]


def works(rows: int, windows: list[int]) -> Iterator[Workload]:
    """Make the workloads, one at a time."""
    for window in windows:
        yield band(rows, window)
        # The result of selectivity 64 is that much larger: a gigabyte per million rows of a side.
        yield band(rows // 2, window, selectivity=64)
        yield band_2d(rows, window)
        yield equality(rows, window)


def line(name: str, work: Workload, measured: Measurement, plan: str) -> str:
    """Say what was measured in one line."""
    about = "about " if measured.extrapolated else ""
    return (
        f"  {name}: {about}{work.tuples / measured.cpu_seconds / 1e6:.3g} M tuples per CPU-second, "
        f"{work.tuples / measured.wall_seconds / 1e6:.3g} M per second, "
        f"{measured.pairs:,} pairs ({plan})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1 << 22, help="of each side")
    parser.add_argument("--window", type=int, nargs="*", default=WINDOWS)
    parser.add_argument("--peers", nargs="*", choices=PARTICIPANTS, default=list(PARTICIPANTS))
    parser.add_argument("--workloads", default="", help="those whose name contains this")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for work in works(options.rows, options.window):
        if options.workloads not in work.name:
            continue
        print(f"{work.name}, {work.rows:,} rows of each side: {work.on}", flush=True)
        for name in options.peers:
            participant = PARTICIPANTS[name]
            measured = measure(participant, work, options.repeats)
            print(line(participant.name, work, measured, participant.plan(work)), flush=True)


main()
