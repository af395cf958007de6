"""What a manager and its workers cost, beside one process with the same index.

Nanoseconds of processor time per tuple, in the second half of the stream, when windows are full.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from bench.peers.ours import encoded, query_of
from bench.peers.workloads import Workload, band, equality
from eddyline.device.cpu import CpuDevice
from eddyline.engine.manager import ManagedJoin

WINDOW, ROWS, BATCH = 1 << 20, 1 << 21, 1 << 16


def measure() -> Iterator[str]:
    for work in (band(ROWS, WINDOW), equality(ROWS, WINDOW)):
        yield f"{work.name}: one process {spent(work, CpuDevice(threads=1))[0]:.0f} ns"
        alone = spent(work, CpuDevice(threads=1, engine="bisort"))[0]
        yield f"  bisort: one process {alone:.0f} ns"
        for sharing in ("subwindows", "tuples"):
            device = CpuDevice(threads=2, engine="bisort", workers=2, sharing=sharing)  # type: ignore[arg-type]
            manager, *workers = spent(work, device)
            each = sum(workers) / len(workers)
            yield (
                f"  bisort, {sharing}: manager {manager:.0f} ns, each of two workers {each:.0f} ns "
                f"({each / alone:.0%} of one process), together {manager + sum(workers):.0f} ns"
            )


def spent(work: Workload, device: CpuDevice) -> list[float]:
    """Return the processor time of this process and of each worker."""
    batches = encoded(work, BATCH)
    half = len(batches) // 2
    before: list[float] = []
    with device:
        device.configure(query_of(work).plan)
        running = device._running
        pids = running.crew.pids if isinstance(running, ManagedJoin) else []
        for number, batch in enumerate(batches):
            if number == half:
                before = _clocks(pids)
            device.push(batch)
            while not device.pull().nothing:
                pass
        after = _clocks(pids)
    tuples = sum(map(len, batches[half:]))
    return [1e9 * (b - a) / tuples for a, b in zip(before, after, strict=True)]


def _clocks(pids: list[int]) -> list[float]:
    ticks = [
        sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        for pid in pids
    ]
    return [time.process_time()] + [one / os.sysconf("SC_CLK_TCK") for one in ticks]
