"""How long a process takes for a tiny join once kernels are compiled, beside one that only imports.

On the command line, from the start of the process to its end. The first start may compile, and is
not counted.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.participant import processor_seconds

RUNS = 5
DEVICES = {"band": "cpu", "nested loop": "cpu?engine=nested"}


def measure() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        pq.write_table(pa.table({"x": [1, 2, 3]}), path)
        imports = seconds([sys.executable, "-c", "import numpy, pyarrow.parquet"])
        for name, device in DEVICES.items():
            join = [sys.executable, "-m", "eddyline.cli.main", "join", str(path), str(path)]
            query = ["--on", "abs(r.x - s.x) <= 1", "--window", "rows:8", "--device", device]
            cpu, wall = seconds([*join, *query])
            yield (
                f"{name}: {wall:.2f} s on the wall, {cpu:.2f} s of processor time, "
                f"{cpu / imports[0]:.1f} x importing numpy and pyarrow"
            )


def seconds(command: list[str]) -> tuple[float, float]:
    cpu, wall = [], []
    for _ in range(RUNS + 1):
        began = processor_seconds(), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        cpu.append(processor_seconds() - began[0])
        wall.append(time.perf_counter() - began[1])
    return statistics.median(cpu[1:]), statistics.median(wall[1:])
