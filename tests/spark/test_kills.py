"""Pairs come out exactly once whichever process is killed, and whenever."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from eddyline.spark.java import find_java
from tests.spark.streams import Rows, band, brute, seconds, unlike_before, written

PATIENCE = 600  # seconds without a batch that is done
# A worker is the process behind a join in which a task is at work, a joiner the one that joins and
# stores; of the others, any may be.
KINDS = {"workers": "pyspark.daemon", "executor": "CoarseGrainedExecutor"}
GATEWARE = "sim:splitjoin?cores=2&window=512"


def offspring(pid: int) -> dict[int, str]:
    """Return the processes that a process has started, directly or not, with their commands."""
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            children.setdefault(parent, []).append(int(folder.name))
            commands[int(folder.name)] = command
    found, waiting = {}, [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found[child] = commands[child]
            waiting.append(child)
    return found


class Job:
    """The streaming query in processes of its own, started again whenever it has ended."""

    def __init__(self, folder: Path, master: str, query: str, *, served: bool):
        find_java()
        self._folder = folder
        self._work, self._joins, self._again = (folder / one for one in ("work", "joins", "again"))
        for one in (self._work, self._joins, self._again):
            one.mkdir()
        device = f"unix:{folder}/socket" if served else "cpu"
        job = [str(folder), master, device, query]
        self._command = [sys.executable, "-m", "tests.spark.killed_job", *job]
        self._process: subprocess.Popen | None = None
        self._served = served
        self._server: subprocess.Popen | None = None
        self.kills: Counter[str] = Counter()

    @property
    def done(self) -> bool:
        return (self._folder / "done").exists()

    @property
    def commits(self) -> int:
        return len(list((self._folder / "out" / "state" / "commits").glob("[0-9]*")))

    @property
    def working(self) -> list[int]:
        """The processes whose tasks have joined rows and have not ended."""
        return [int(one.name) for one in self._work.iterdir()]

    @property
    def joining(self) -> list[int]:
        """The processes in which a unit joins and stores."""
        pids = [int(one.name) for one in self._joins.iterdir()]
        return [pid for pid in pids if Path("/proc", str(pid)).exists()]

    @property
    def tasks_lost(self) -> int:
        """How many tasks have joined rows in another attempt than the first."""
        return len(list(self._again.iterdir()))

    def run_past(self, commits: int) -> None:
        """Wait until more batches are done than so many, or all."""
        self._run_until(lambda: self.commits > commits)

    def run_to_work(self) -> None:
        """Wait until a task is at work."""
        self._run_until(lambda: bool(self.working))

    def _run_until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not reached() and not self.done:
            assert time.monotonic() < deadline, (self._folder / "log").read_text()[-3000:]
            self.run()
            time.sleep(0.02)

    def serve(self) -> None:
        """Start the process that owns the device, if there is to be one and it has ended."""
        if self._served and (self._server is None or self._server.poll() is not None):
            command = [sys.executable, "-m", "eddyline.cli.main", "serve", GATEWARE, "--socket"]
            with (self._folder / "log").open("a") as log:
                self._server = subprocess.Popen(
                    [*command, str(self._folder / "socket")], stdout=log, stderr=log
                )

    def run(self) -> subprocess.Popen:
        self.serve()
        if self._process is None or self._process.poll() is not None:
            log = (self._folder / "log").open("a")
            self._process = subprocess.Popen(
                self._command, start_new_session=True, stdout=log, stderr=log,
                cwd=Path(__file__).parents[2],
            )  # fmt: skip
        return self._process

    def kill(self, kind: str) -> None:
        """Kill what there is of a kind; a driver goes with all that it has started."""
        self.run()
        if kind == "device":
            assert self._server
            self._server.kill()
            self._server.wait()
        elif kind == "driver":
            self.end()
        else:
            deadline = time.monotonic() + PATIENCE
            while not self.done and not sum(map(killed, self._some(kind))):
                assert time.monotonic() < deadline, f"there is no {kind} to kill"
                self.run()
                time.sleep(0.005)
        self.kills[kind] += not self.done
        self.kills["at work"] += bool(self.working) or kind == "joiner"
        for mark in [*self._work.iterdir(), *self._joins.iterdir()]:
            mark.unlink(missing_ok=True)  # what is killed leaves it behind

    def _some(self, kind: str) -> list[int]:
        """Return what to kill, if it runs."""
        if kind == "joiner":
            return self.joining[:1]
        if kind == "worker" and self.working:
            return self.working[:1]
        below = offspring(self.run().pid)
        if kind == "executor":
            return [pid for pid, command in below.items() if KINDS[kind] in command][:1]
        ends = [pid for pid, command in below.items() if KINDS["workers"] in command]
        ends = [pid for pid in ends if not offspring(pid)]
        return ends if kind == "workers" else ends[:1]

    def end(self) -> None:
        if self._process and self._process.poll() is None:
            for pid in offspring(self._process.pid):
                killed(pid)
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        self.end()
        if self._server:
            self._server.kill()
            self._server.wait()


def killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def expected(query: str, r: Rows, s: Rows, state: Path, files: int) -> list[tuple]:
    """Return what a query of ``killed_job`` gives in the end, by brute force."""
    if query == "rows":
        return sorted(by_rows(r, s, state, files, count=20), key=repr)
    matches = band(r, s, 2)
    if query == "contrand":
        matches = r.x[:, None] == s.x[None, :]
    if query == "theta":
        matches = r.x[:, None] < s.x[None, :] - 40
    found = brute(r, s, matches, seconds(9, 9))
    if query == "distinct":
        passed = min(r.t.max(), s.t.max()) - 5 * 10**6
        return sorted(unlike_before(r, s, found, 7 * 10**6, until=passed // 1000 * 1000))
    return found


def by_rows(r: Rows, s: Rows, state: Path, files: int, *, count: int) -> Iterator[tuple]:
    """Yield the pairs of windows of rows that the watermark has passed, and all late rows.

    Which files and watermark a batch has depends on the kills (a source that has logged a file
    before the driver was killed takes one more), so that is read from the log of the query.
    """
    parts = [np.array_split(np.arange(len(one.n)), files) for one in (r, s)]
    late = [np.zeros(len(one.n), bool) for one in (r, s)]
    for batch in sorted((state / "offsets").glob("[0-9]*"), key=lambda one: int(one.name)):
        head, *ends = map(json.loads, batch.read_text().splitlines()[1:])
        watermark = head["batchWatermarkMs"] * 1000
        for side, rows in enumerate((r, s)):
            while len(parts[side]) >= files - ends[side]["logOffset"]:
                part = parts[side].pop(0)
                late[side][part] = rows.t[part] <= watermark
    yield from ((n, None, "r") for n in r.n[late[0]].tolist())
    yield from ((None, n, "s") for n in s.n[late[1]].tolist())
    r, s = r.at(~late[0]), s.at(~late[1])
    for i, j in brute(r, s, band(r, s, 2), (2**62, 2**62)):
        (first, mine), (last, _) = sorted([(r.t[i], r.t), (s.t[j], s.t)], key=lambda one: one[0])
        if last <= watermark and ((mine >= first) & (mine < last)).sum() <= count:
            yield (int(r.n[i]), int(s.n[j]), None)


def survived(
    spark, folder: Path, kinds: list[str], query: str, *, master: str = "local[2,8]", files: int,
    seed: int = 0,
) -> Counter[str]:  # fmt: skip
    disorder = 7 if query == "rows" else 1  # seconds, more than the lateness or not
    r, s = (Rows.random(number, 600, disorder=disorder * 10**6) for number in (1, 2))
    for name, rows in (("r", r), ("s", s)):
        rows.write(folder / name, files)
    job = Job(folder, master, query, served="device" in kinds)
    rng = np.random.default_rng([len(kinds), seed])
    try:
        for number, kind in enumerate(kinds):
            # Let at least a batch through in between, so that there is always something to lose.
            job.run_past(job.commits)
            if number % 2:
                time.sleep(rng.uniform(0, 0.5))
            else:
                job.run_to_work()
            if job.done:
                break
            job.kill(kind)
        while not job.done:
            job.run_past(job.commits)
        job.kills["tasks"] = job.tasks_lost
    finally:
        job.close()
    assert written(spark, folder / "out") == expected(query, r, s, folder / "out" / "state", files)
    return job.kills


def test_pairs_come_once_though_processes_are_killed(spark, tmp_path):
    # The only unit reads files itself.
    kinds = ["worker", "driver", "joiner", "workers", "joiner"]
    kills = survived(spark, tmp_path, kinds, "band", files=8)
    assert sum(kills[kind] for kind in set(kinds)) == len(kinds)
    assert kills["at work"] >= 3
    assert kills["tasks"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(5))
def test_pairs_come_once_over_many_kills(spark, tmp_path, round_):
    query = ["ranges", "contrand", "theta", "distinct", "rows"][round_]
    kinds = ["worker", "driver", "workers", "joiner", "driver"] * 2
    kinds = kinds[round_:] + kinds[:round_]
    kills = survived(spark, tmp_path, kinds, query, files=16, seed=round_)
    assert sum(kills[kind] for kind in set(kinds)) == len(kinds)
    assert kills["at work"] >= 5
    assert kills["tasks"] >= 2


@pytest.mark.slow
def test_pairs_come_once_though_executors_are_killed(spark, tmp_path):
    kinds = ["executor", "joiner", "executor"]
    master = "local-cluster[2,1,1024]"
    kills = survived(spark, tmp_path, kinds, "units", master=master, files=5)
    assert kills["executor"] >= 1
    assert kills["at work"] >= 1


@pytest.mark.slow
def test_pairs_come_once_though_the_device_is_killed(spark, tmp_path):
    """The process that owns the device dies, tasks fail until it is back, and nothing is lost."""
    kinds = ["device", "joiner", "device", "driver", "device"]
    kills = survived(spark, tmp_path, kinds, "band", files=8)
    assert kills["device"] >= 2
    assert kills["at work"] >= 2
