"""Workers are killed, at every point of a join: every pair is still handed over once."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from eddyline.engine.manager import Crew, ManagedJoin
from eddyline.engine.manager.crew import _start
from eddyline.engine.manager.link import Gone
from eddyline.engine.manager.places import ATTEMPTS
from eddyline.errors import DeviceError
from eddyline.plan import Order, Window
from tests.host.engine.draws import Drawn, alone, pulled, same
from tests.host.twin.joins import BAND, parts, plan, tuples

WORKERS = 2
WHOLE = tuples(BAND, "rsrrs" * 40, 7)
CUTS = [30, 31, 90, 150]
WINDOWS = {"rows": Window("rows", 30), "time": Window("time", 25), "unbounded": Window("unbounded")}


class Doomed(Crew):
    """Workers of which one is killed when it has been sent or has said so many messages.

    ``how`` says what becomes of it. ``killed``: what it has said can still be heard. ``silenced``:
    what it said last is lost, as if it had died a moment earlier. ``stopped``: it is sent a
    message, but dies before it reads it; only those that it is sent count.
    """

    def __init__(self, count: int):
        super().__init__(count)
        self.disarm()

    def disarm(self) -> None:
        self._left, self._victim, self._how, self._lost = -1, -1, "", False
        self.deaths: list[float] = []
        self.noticed: list[float] = []
        self.told: list[str] = []

    def arm(self, victim: int, after: int, how: str) -> None:
        self.disarm()
        self._victim, self._left, self._how = victim, after, how

    def send(self, place, message, fd=None):
        struck = self._strikes(place)
        if struck and self._how == "stopped":
            os.kill(self.pids[place], signal.SIGSTOP)
        elif struck:
            self.kill(place)
        if self._lost and place == self._victim:
            raise Gone
        super().send(place, message, fd)
        self.told.append(message["do"])
        if struck and self._how == "stopped":
            self.kill(place)

    def receive(self, place):
        if self._how != "stopped" and self._strikes(place):
            self.kill(place)
        if self._lost and place == self._victim:
            raise Gone
        return super().receive(place)

    def replace(self, place):
        self.noticed.append(time.monotonic())
        self._lost = False
        super().replace(place)

    def kill(self, place: int) -> None:
        self._lost = self._how == "silenced"
        self.deaths.append(time.monotonic())
        os.kill(self.pids[place], signal.SIGKILL)

    def _strikes(self, place: int) -> bool:
        """Count a message of the victim; say whether it is the last."""
        if place != self._victim:
            return False
        self._left -= 1
        return self._left == -1


@pytest.fixture(scope="module")
def doomed() -> Iterator[Doomed]:
    crew = Doomed(WORKERS)
    yield crew
    crew.close()


def survive(crew: Doomed, *, window: str, order: str, sharing: str) -> bool:
    """Join while workers die; return whether one did."""
    kept = WINDOWS[window]
    one = replace(plan(BAND, kept, kept), order=Order(order))
    with ManagedJoin(one, share=sharing, batch=40, crew=crew) as join:
        found = []
        for piece in parts(WHOLE, CUTS):
            join.push(piece)
            found += pulled(join)
        assert same(found, alone(Drawn(one, WHOLE, [])), one.order)
        report = join.report()
        assert report["restarts"] == len(crew.noticed)
        assert report["results"] == len(found)
    died = bool(crew.deaths)
    crew.disarm()
    return died


@pytest.mark.parametrize(
    ("after", "how", "window", "order", "sharing"),
    [
        (0, "killed", "rows", "none", "subwindows"),
        (3, "stopped", "time", "inner", "tuples"),
        (8, "silenced", "rows", "inner", "tuples"),  # between its results and their end
        (12, "killed", "unbounded", "none", "tuples"),
        (10, "stopped", "rows", "inner", "subwindows"),
        (14, "silenced", "time", "none", "subwindows"),
    ],
)
def test_a_killed_worker_costs_no_pair(doomed, after, how, window, order, sharing):
    doomed.arm(1, after, how)
    assert survive(doomed, window=window, order=order, sharing=sharing)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "silenced", "stopped"])
@pytest.mark.parametrize("sharing", ["subwindows", "tuples"])
@pytest.mark.parametrize(("window", "order"), [("rows", "none"), ("time", "inner")])
def test_a_worker_may_be_killed_at_every_point(doomed, how, sharing, window, order):
    for victim in range(WORKERS):
        after = 0
        while True:
            doomed.arm(victim, after, how)
            if not survive(doomed, window=window, order=order, sharing=sharing):
                break
            after += 1
        assert after > 8


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["subwindows", "tuples"])
def test_workers_may_be_killed_at_any_time(doomed, sharing, monkeypatch):
    """Not at a message, but whenever the clock says so, also before they are ready."""
    monkeypatch.setattr("eddyline.engine.manager.places.ATTEMPTS", 1000)
    done = threading.Event()

    def kill_now_and_then() -> None:
        for number in range(40):
            if done.wait(0.05 + 0.013 * (number % 7)):
                return
            with suppress(ProcessLookupError):
                os.kill(doomed.pids[number % WORKERS], signal.SIGKILL)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        for _ in range(6):
            survive(doomed, window="rows", order="inner", sharing=sharing)
    finally:
        done.set()
        killer.join()


def test_several_workers_may_die_at_once(doomed):
    kept = WINDOWS["rows"]
    one = plan(BAND, kept, kept)
    with ManagedJoin(one, batch=40, crew=doomed) as join:
        first, last = WHOLE.cut(100)
        join.push(first)
        found = pulled(join)
        for place in range(WORKERS):
            doomed.kill(place)
        join.push(last)
        found += pulled(join)
        assert sorted(found) == sorted(alone(Drawn(one, WHOLE, [])))
    doomed.disarm()


def test_a_death_is_noticed_whoever_waits(doomed):
    """While the manager waits for this worker, which has been stopped and would never answer."""
    kept = WINDOWS["rows"]
    with ManagedJoin(plan(BAND, kept, kept), share="tuples", crew=doomed) as join:
        os.kill(doomed.pids[1], signal.SIGSTOP)
        killer = threading.Timer(0.2, doomed.kill, [1])
        killer.start()
        join.push(WHOLE)
        assert pulled(join)
        killer.join()
        assert doomed.noticed[0] >= doomed.deaths[0]
    doomed.disarm()


@pytest.mark.parametrize("sharing", ["subwindows", "tuples"])
def test_a_death_is_noticed_though_nobody_calls(doomed, sharing):
    """Its place is taken, and what it stored is on its way to the next, before the next call.

    How long that takes is measured by ``bench/deaths.py``: the deadline here is for a busy machine.
    """
    kept = WINDOWS["rows"]
    one = plan(BAND, kept, kept)
    with ManagedJoin(one, share=sharing, batch=40, crew=doomed) as join:
        first, last = WHOLE.cut(100)
        join.push(first)
        found = pulled(join)
        for deaths in range(1, 4):
            doomed.told.clear()
            doomed.kill(deaths % WORKERS)
            deadline = time.monotonic() + 60
            while "load" not in doomed.told:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            assert len(doomed.noticed) == deaths
        join.push(last)
        found += pulled(join)
        assert sorted(found) == sorted(alone(Drawn(one, WHOLE, [])))
        assert join.report()["restarts"] == 3
    doomed.disarm()


def test_a_worker_that_never_lives_is_left_to_the_next_call(doomed, monkeypatch):
    """Nobody starts processes for ever that end at once, with nobody there to see it."""
    kept = WINDOWS["rows"]
    one = plan(BAND, kept, kept)
    with ManagedJoin(one, share="tuples", batch=40, crew=doomed) as join:
        first, last = WHOLE.cut(100)
        join.push(first)
        found = pulled(join)
        with monkeypatch.context() as broken:
            broken.setattr("eddyline.engine.manager.crew._start", _ended_from_the_start)
            doomed.kill(0)
            deadline = time.monotonic() + 60
            while len(doomed.noticed) < ATTEMPTS:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            time.sleep(0.1)
            assert len(doomed.noticed) == ATTEMPTS
        join.push(last)
        found += pulled(join)
        assert sorted(found) == sorted(alone(Drawn(one, WHOLE, [])))
        noticed = len(doomed.noticed)
        doomed.kill(0)  # it has worked since: it is watched again
        while len(doomed.noticed) == noticed:
            assert time.monotonic() < deadline + 60
            time.sleep(0.005)
    doomed.disarm()


def test_a_batch_that_kills_every_worker_is_given_up(doomed, monkeypatch):
    kept = WINDOWS["rows"]
    monkeypatch.setattr("eddyline.engine.manager.places.ATTEMPTS", 2)
    with ManagedJoin(plan(BAND, kept, kept), share="tuples", crew=doomed) as join:
        send = Crew.send

        def deadly(crew, place, message, fd=None):
            send(crew, place, message, fd)
            if place == 0 and message["do"] == "join":
                crew.kill(0)

        monkeypatch.setattr(Doomed, "send", deadly)
        # Stopped, so that it cannot answer before it is killed.
        monkeypatch.setattr("eddyline.engine.manager.crew._start", _stopped_from_the_start)
        os.kill(doomed.pids[0], signal.SIGSTOP)
        join.push(WHOLE)
        with pytest.raises(DeviceError, match="worker 0 has ended 2 times over the same batch"):
            pulled(join)
        with pytest.raises(DeviceError, match="is closed"):
            join.push(WHOLE)
    monkeypatch.undo()
    doomed.replace(0)
    doomed.disarm()


def _ended_from_the_start():
    process, link = _start()
    process.kill()
    return process, link


def _stopped_from_the_start():
    process, link = _start()
    os.kill(process.pid, signal.SIGSTOP)
    return process, link
