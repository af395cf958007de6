"""How a managed join ends: no process and no memory is left behind."""

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eddyline.engine.manager import Crew, ManagedJoin
from eddyline.errors import DeviceError
from eddyline.plan import Window
from tests.host.engine.draws import pulled
from tests.host.twin.joins import BAND, plan, tuples
from tests.host.twin.test_ends import is_running, wait_until_gone

ROWS = Window("rows", 100)
PLAN = plan(BAND, ROWS, ROWS)
WHOLE = tuples(BAND, "rs" * 500, 1)

# Starts a join, prints the ids of its workers, and works until it is stopped.
BUSY = """
from eddyline.engine.manager import ManagedJoin
from tests.host.engine.draws import pulled
from tests.host.engine.manager.test_ends import PLAN, WHOLE

with ManagedJoin(PLAN, workers=2) as join:
    print(*join.crew.pids, flush=True)
    while True:
        join.push(WHOLE)
        pulled(join)
"""


def shared_memory() -> list[str]:
    """Return what this process has of shared memory, open or mapped."""
    gc.collect()
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:" in line]
    numbers = Path("/proc/self/fd")
    links = [os.readlink(one) for one in numbers.iterdir() if one.is_symlink()]
    return [text for text in maps + links if "memfd:eddyline" in text]


def test_workers_and_memory_end_with_the_join():
    before = shared_memory()
    with ManagedJoin(PLAN, workers=2) as join:
        pids = join.crew.pids
        join.push(WHOLE)
        assert pulled(join)
        assert all(map(is_running, pids))
        assert len(shared_memory()) > len(before)
    wait_until_gone(pids)
    assert shared_memory() == before
    with pytest.raises(DeviceError, match="this join is closed"):
        join.push(WHOLE)
    join.close()


def test_workers_and_memory_end_without_being_told():
    before = shared_memory()
    join = ManagedJoin(PLAN, workers=1)
    join.push(WHOLE)
    pids = join.crew.pids
    del join
    wait_until_gone(pids)
    assert shared_memory() == before


def test_workers_end_with_an_error():
    class Unshared(Exception):
        pass

    class Refusing:
        def owners(self, tuples, first):
            raise Unshared

        def reset(self):
            pass

    pids = []

    def fail() -> None:
        with ManagedJoin(PLAN, workers=1, share=Refusing()) as join:
            pids.extend(join.crew.pids)
            join.push(WHOLE)
            join.pull()

    with pytest.raises(Unshared):
        fail()
    wait_until_gone(pids)


def test_workers_do_not_outlive_a_killed_manager():
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as busy:
        pids = [int(pid) for pid in busy.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_running, pids))
        busy.kill()
        wait_until_gone(pids)


def pushed(join: ManagedJoin) -> list[tuple[int, int]]:
    join.push(WHOLE)
    return pulled(join)


def test_what_a_worker_cannot_do_is_said_once():
    """An error would come again in another process, so there is none."""
    crew = Crew(1)
    with ManagedJoin(PLAN, crew=crew) as join:
        crew.send(0, {"do": "load", "r": [0, 1], "s": [0, 0]})  # from memory it does not know
        with pytest.raises(DeviceError, match=r"(?s)worker 0 failed:.*KeyError"):
            pushed(join)
    crew.close()
    wait_until_gone(crew.pids)


def test_what_a_worker_cannot_do_is_said_at_the_next_call():
    with ManagedJoin(PLAN, workers=1) as join:
        pids = join.crew.pids
        join.crew.send(0, {"do": "load", "r": [0, 1], "s": [0, 0]})
        wait_until_gone(pids)
        for _ in range(1000):  # nobody has called when it is noticed
            if join._crew is None:
                break
            time.sleep(0.01)
        with pytest.raises(DeviceError, match=r"(?s)worker 0 failed:.*KeyError"):
            join.push(WHOLE)
        with pytest.raises(DeviceError, match="this join is closed"):
            join.pull()


def test_nobody_watches_a_join_that_has_ended():
    def watches() -> int:
        gc.collect()
        return sum(thread.name == "eddyline-watch" for thread in threading.enumerate())

    before = watches()
    join = ManagedJoin(PLAN, workers=1)
    assert watches() == before + 1
    join.close()
    assert watches() == before
    join = ManagedJoin(PLAN, workers=1)
    del join
    for _ in range(1000):
        if watches() == before:
            return
        time.sleep(0.01)
    raise AssertionError("a watch has outlived its join")


def test_answers_to_an_earlier_join_are_not_heard():
    crew = Crew(1)
    first = ManagedJoin(PLAN, crew=crew)
    first.push(WHOLE)
    assert first.pull() is not None
    first.push(WHOLE)
    first._send(first._collector.take())
    first.close()
    with ManagedJoin(PLAN, crew=crew) as second:
        second.push(WHOLE)
        found = pulled(second)
    with ManagedJoin(PLAN, crew=crew) as third:
        third.push(WHOLE)
        assert sorted(pulled(third)) == sorted(found)
    crew.close()
