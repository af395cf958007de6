"""How the twin's processes end: all of them, and with a reason."""

import os
import signal
import subprocess
import sys
import time

import pytest

from eddyline.device import Tuples
from eddyline.errors import DeviceError
from eddyline.plan import Window
from eddyline.twin import HandshakeTwin
from tests.host.twin.joins import BAND, plan, tuples

# Starts a twin, prints the ids of its workers, and pushes until it is stopped.
BUSY = """
import signal

# Whoever runs the tests in the background has had interrupts ignored, for all its children.
signal.signal(signal.SIGINT, signal.default_int_handler)

from eddyline.plan import Window
from eddyline.twin import HandshakeTwin
from tests.host.twin.joins import BAND, plan, tuples

rows = Window("rows", 100)
whole = tuples(BAND, "rs" * 500, 1)
with HandshakeTwin(plan(BAND, rows, rows), processes=2) as twin:
    print(*twin.pids, flush=True)
    while True:
        twin.push(whole)
"""


def is_running(pid: int) -> bool:
    """Say whether a process is there and not just waiting for its parent to take note."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, "workers are still there"
        time.sleep(0.01)


@pytest.fixture
def busy():
    """Return a process that uses a twin, and the ids of the twin's workers."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        yield process, pids
        process.kill()


def test_workers_do_not_outlive_a_killed_dispatcher(busy):
    process, pids = busy
    assert all(map(is_running, pids))
    process.kill()
    wait_until_gone(pids)


def test_an_interrupt_ends_everything_with_one_traceback(busy):
    process, pids = busy
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1
    wait_until_gone(pids)


def push_for_ever(twin: HandshakeTwin, whole: Tuples) -> None:
    while True:
        twin.push(whole)


@pytest.mark.parametrize(("chain", "victim"), [("asynchronous", 0), ("lockstep", 1)])
def test_a_killed_worker_is_named(chain, victim):
    rows = Window("rows", 100)
    whole = tuples(BAND, "rs" * 500, 1)
    with HandshakeTwin(plan(BAND, rows, rows), processes=2, chain=chain) as twin:
        twin.push(whole)
        os.kill(twin.pids[victim], signal.SIGKILL)
        with pytest.raises(DeviceError, match=rf"worker {victim} of 2 .*killed by signal 9"):
            push_for_ever(twin, whole)
        with pytest.raises(DeviceError, match="start another twin"):
            twin.flush()
        wait_until_gone(twin.pids)


def test_workers_end_with_the_twin():
    twin = HandshakeTwin(plan(BAND, Window("rows", 3), Window("rows", 3)), processes=1)
    pids = twin.pids
    assert all(map(is_running, pids))
    del twin
    wait_until_gone(pids)
