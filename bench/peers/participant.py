"""What takes part in a measurement, and the measurement."""

import os
import resource
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from bench.peers.workloads import Workload

__all__ = ["Job", "Measurement", "Participant", "measure", "processor_seconds"]


@dataclass(frozen=True)
class Job:
    """A join that is ready to run.

    ``run`` joins the two tables and returns all pairs in memory, in any order: a table of the
    integer columns ``i`` (row of R) and ``j`` (row of S). It can be called again. A join that is
    too slow to be run whole does a ``share`` of the comparisons, and its time is extrapolated.
    """

    run: Callable[[], pa.Table]
    share: float = 1.0


class Participant(Protocol):
    """A way to join a workload, on one core."""

    name: str

    def prepare(self, work: Workload) -> Job:
        """Do what is not measured, such as opening a connection."""

    def plan(self, work: Workload) -> str:
        """Say in a few words how the join is done, as the engine itself explains it."""


@dataclass(frozen=True)
class Measurement:
    """One join: processor time with that of child processes, time on the wall, result size.

    With ``extrapolated``, all three are those of the whole join, worked out from a part of it.
    ``spread`` is the processor time from the least to the most of all runs, in parts of the median.
    """

    cpu_seconds: float
    wall_seconds: float
    pairs: int
    extrapolated: bool = False
    spread: float = 0.0


def measure(participant: Participant, work: Workload, repeats: int = 3) -> Measurement:
    """Return the medians of several runs, after one that is not counted."""
    job = participant.prepare(work)
    pairs = job.run().num_rows
    cpu, wall = [], []
    for _ in range(repeats):
        began = processor_seconds(), time.perf_counter()
        result = job.run()
        cpu.append(processor_seconds() - began[0])
        wall.append(time.perf_counter() - began[1])
        del result
    return Measurement(
        statistics.median(cpu) / job.share,
        statistics.median(wall) / job.share,
        round(pairs / job.share),
        extrapolated=job.share < 1,
        spread=(max(cpu) - min(cpu)) / statistics.median(cpu),
    )


def processor_seconds() -> float:
    """Return the processor time of this process and of all that it has started, with all threads.

    Processes that still run, as Spark's Java and its workers do, are looked up in ``/proc``.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = _running_ticks() / os.sysconf("SC_CLK_TCK")
    return time.process_time() + ended.ru_utime + ended.ru_stime + running


# Ticks of processes whose parents do not wait for them, by id and start. Nobody else has these when
# such a process has ended, as workers of Spark do that have been idle for a minute.
_not_awaited: dict[tuple[int, int], int] = {}


def _running_ticks() -> int:
    """Return the ticks of all offspring that runs, and of what it has seen end."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    starts: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The second field, the command's name, is in brackets and may contain spaces.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended since
            continue
        pid = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
        starts[pid] = int(fields[19])
    total, waiting = 0, [os.getpid()]
    while waiting:
        parent = waiting.pop()
        waits = _waits(parent)
        for child in children.get(parent, []):
            waiting.append(child)
            if waits:
                total += ticks[child]
            else:
                _not_awaited[child, starts[child]] = ticks[child]
    return total + sum(_not_awaited.values())


def _waits(pid: int) -> bool:
    """Say whether a process is told when its children end, and so adds their ticks to its own."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    return not ignored >> (signal.SIGCHLD - 1) & 1
