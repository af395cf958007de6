"""Pairs come out exactly once whichever process is killed, and whenever."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from eddyline.spark.java import find_java
from tests.spark.streams import Rows, band, brute, seconds, written

PATIENCE = 600  # seconds without a batch that is done
KINDS = {"driver": "killed_job", "worker": "pyspark.daemon", "executor": "CoarseGrainedExecutor"}


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

    def __init__(self, folder: Path, master: str, *, served: bool, units: int):
        find_java()
        self._folder = folder
        # A device stores all that it is shown, so it has one unit.
        device, units = (f"unix:{folder}/socket", 1) if served else ("cpu", units)
        job = [str(folder), master, device, str(units)]
        self._command = [sys.executable, "-m", "tests.spark.killed_job", *job]
        self._process: subprocess.Popen | None = None
        self._served = served
        self._server: subprocess.Popen | None = None
        self.kills: dict[str, int] = dict.fromkeys([*KINDS, "device"], 0)

    @property
    def done(self) -> bool:
        return (self._folder / "done").exists()

    @property
    def commits(self) -> int:
        return len(list((self._folder / "out" / "state" / "commits").glob("[0-9]*")))

    def run_past(self, commits: int) -> None:
        """Wait until more batches are done than so many, or all."""
        deadline = time.monotonic() + PATIENCE
        while self.commits <= commits and not self.done:
            assert time.monotonic() < deadline, (self._folder / "log").read_text()[-3000:]
            self.run()
            time.sleep(0.05)

    def serve(self) -> None:
        """Start the process that owns the device, if there is to be one and it has ended."""
        if self._served and (self._server is None or self._server.poll() is not None):
            command = [sys.executable, "-m", "eddyline.cli.main", "serve", "reference", "--socket"]
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
        """Kill one process of a kind, when there is one; a driver with all that it has started."""
        self.run()
        if kind == "device":
            assert self._server
            self._server.kill()
            self._server.wait()
            self.kills[kind] += 1
            return
        if kind == "driver":
            self.end()
            self.kills[kind] += 1
            return
        deadline = time.monotonic() + PATIENCE
        while not self.done and not any(map(suppressed_kill, self._some(kind))):
            assert time.monotonic() < deadline, f"there is no {kind} to kill"
            self.run()
        self.kills[kind] += not self.done

    def _some(self, kind: str) -> list[int]:
        """Return one process of a kind, or none if none runs."""
        found = [
            pid
            for pid, command in offspring(self.run().pid).items()
            if KINDS[kind] in command and (kind != "worker" or offspring(pid) == {})
        ]
        return found[:1]

    def end(self) -> None:
        if self._process and self._process.poll() is None:
            for pid in offspring(self._process.pid):
                suppressed_kill(pid)
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        self.end()
        if self._server:
            self._server.kill()
            self._server.wait()


def suppressed_kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def survived(
    spark, folder: Path, kinds: list[str], *, master: str, files: int, units: int = 2, seed: int = 0
) -> dict[str, int]:
    r, s = Rows.random(1, 600, disorder=10**6), Rows.random(2, 600, disorder=10**6)
    for name, rows in (("r", r), ("s", s)):
        rows.write(folder / name, files)
    job = Job(folder, master, served="device" in kinds, units=units)
    rng = np.random.default_rng([len(kinds), seed])
    try:
        for kind in kinds:
            # Let at least a batch through in between, so that there is always something to lose.
            job.run_past(job.commits)
            if job.done:
                break
            time.sleep(rng.uniform(0, 0.5))
            job.kill(kind)
        while not job.done:
            job.run_past(job.commits)
    finally:
        job.close()
    assert written(spark, folder / "out") == brute(r, s, band(r, s, 2), seconds(9, 9))
    return job.kills


def test_pairs_come_once_though_processes_are_killed(spark, tmp_path):
    # The only unit reads files itself.
    kinds = ["worker", "worker", "driver", "worker", "worker"]
    kills = survived(spark, tmp_path, kinds, master="local[2,8]", files=8, units=1)
    assert sum(kills.values()) == len(kinds)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(5))
def test_pairs_come_once_over_many_kills(spark, tmp_path, round_):
    kinds = ["worker", "driver", "worker", "worker", "driver"] * 2
    kinds = kinds[round_:] + kinds[:round_]
    units = 1 + round_ % 2
    kills = survived(
        spark, tmp_path, kinds, master="local[2,8]", files=16, units=units, seed=round_
    )
    assert sum(kills.values()) == len(kinds)


@pytest.mark.slow
def test_pairs_come_once_though_executors_are_killed(spark, tmp_path):
    kinds = ["executor", "worker", "executor"]
    kills = survived(spark, tmp_path, kinds, master="local-cluster[2,1,1024]", files=5)
    assert kills["executor"] >= 1


@pytest.mark.slow
def test_pairs_come_once_though_the_device_is_killed(spark, tmp_path):
    """The process that owns the device dies, tasks fail until it is back, and nothing is lost."""
    kinds = ["device", "worker", "device", "driver", "device"]
    kills = survived(spark, tmp_path, kinds, master="local[2,8]", files=8)
    assert kills["device"] >= 2
