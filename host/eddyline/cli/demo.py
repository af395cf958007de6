"""A tour in two minutes: two streams, the plan of a join, its result, and the same on Spark."""

import shlex
import sys
from pathlib import Path

import pyarrow.parquet as pq

from eddyline.cli.demo_spark import spark_tour
from eddyline.cli.main import main

__all__ = ["tour"]

BAND = "r.x BETWEEN s.a-10 AND s.a+10 AND r.y BETWEEN s.b-10 AND s.b+10"
NEXT = """\
next:
  eddyline join --help          windows, time, lateness, order, devices
  eddyline generate --help      the papers' streams, with skew and changing rates
  eddyline doctor               what this machine has
  docs/spark.md                 stream joins on Spark
  docs/semantics.md             what exactly a join means here
(eddyline is in .venv/bin)"""


def tour(folder: Path, *, spark: bool = True) -> int:
    """Run the tour in a folder, with its last stop or without; return the exit code."""
    r, s, joined = (str(folder / name) for name in ("r.parquet", "s.parquet", "joined.parquet"))
    steps = [
        ["generate", "splitjoin", "--rows", "100000", "--seed", "1", "-o", str(folder)],
        ["explain", r, s, "--on", BAND],
        ["join", r, s, "--on", BAND, "--window", "rows:65536", "--order", "inner", "-o", joined],
    ]
    for step in steps:
        print(f"$ eddyline {shlex.join(step)}", flush=True)
        code = main(step)
        if code:
            return code
        print(flush=True)
    print(f"the first rows of {joined}:")
    columns = ["x", "a", "y", "b", "z", "d"]
    table = pq.read_table(joined, columns=columns)
    print("  ".join(f"{name:>10}" for name in columns))
    for row in table.slice(0, 5).to_pylist():
        cells = (f"{v:.2f}" if isinstance(v, float) else str(v)[:10] for v in row.values())
        print("  ".join(f"{cell:>10}" for cell in cells))
    print(f"... {table.num_rows} rows\n", flush=True)
    code = spark_tour(folder / "spark") if spark else 0
    print(NEXT)
    return code


if __name__ == "__main__":
    sys.exit(tour(Path("demo")))
