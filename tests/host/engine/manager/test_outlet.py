"""Results that go straight to a consumer, past the manager: every pair once, also after deaths."""

import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from eddyline.engine.manager import Consumer, ManagedJoin, Outlet
from eddyline.engine.part import Part
from eddyline.errors import DeviceError
from eddyline.plan import Order, Window
from tests.host.engine.draws import Drawn, alone, pulled
from tests.host.engine.manager.test_deaths import CUTS, WHOLE, Doomed, doomed  # noqa: F401 a fixture
from tests.host.twin.joins import BAND, parts, plan

ROWS = Window("rows", 30)
PLAN = plan(BAND, ROWS, ROWS)
EXPECTED = sorted(alone(Drawn(PLAN, WHOLE, [])))
PROCESS = """
import sys
from eddyline.engine.manager import Consumer
for part in Consumer(int(sys.argv[1])):
    print(part.closed, *zip(part.r_id.tolist(), part.s_id.tolist()), sep=";")
"""


def consumed(crew, sharing: str) -> tuple[list[Part], ManagedJoin]:
    """Join while a thread takes the results, and check that the manager sees none."""
    taken: list[Part] = []
    with Outlet() as outlet:
        consumer = Consumer(outlet.fileno())
        thread = threading.Thread(target=lambda: taken.extend(consumer))
        thread.start()
        with ManagedJoin(PLAN, share=sharing, batch=40, outlet=outlet, crew=crew) as join:
            for piece in parts(WHOLE, CUTS):
                join.push(piece)
                assert pulled(join) == []
        thread.join()
        consumer.close()
    return taken, join


def pairs(taken: list[Part]) -> list[tuple[int, int]]:
    found = (zip(part.r_id.tolist(), part.s_id.tolist(), strict=True) for part in taken)
    return sorted(pair for some in found for pair in some)


@pytest.mark.parametrize("sharing", ["subwindows", "tuples"])
def test_a_consumer_gets_every_pair_from_the_workers(hired, sharing):
    taken, join = consumed(hired(3), sharing)
    assert pairs(taken) == EXPECTED
    assert join._results == len(EXPECTED)
    closed = [part.closed for part in taken]
    assert closed == sorted(closed)
    assert closed[-1] == len(WHOLE)


@pytest.mark.parametrize("how", ["killed", "silenced", "stopped"])
@pytest.mark.parametrize("after", [4, 7, 8, 9, 12])
def test_a_consumer_gets_every_pair_once_though_workers_die(doomed: Doomed, after, how):  # noqa: F811
    """What a worker said to the consumer but not to the manager is said again, and left out."""
    doomed.arm(1, after, how)
    taken, _ = consumed(doomed, "tuples")
    assert doomed.deaths
    doomed.disarm()
    assert pairs(taken) == EXPECTED


def test_a_consumer_may_be_another_process(hired):
    with Outlet() as outlet:
        number = outlet.fileno()
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(number)],
            pass_fds=[number],
            stdout=subprocess.PIPE,
            text=True,
        )
        outlet.hand_over()
        with ManagedJoin(PLAN, batch=40, outlet=outlet, crew=hired(3)) as join:
            join.push(WHOLE)
            assert pulled(join) == []
        lines = process.communicate()[0].splitlines()
    assert process.returncode == 0
    assert sorted(eval(pair) for line in lines for pair in line.split(";")[1:]) == EXPECTED
    assert lines[-1].partition(";")[0] == str(len(WHOLE))


def test_a_consumer_that_has_ended_ends_the_join(hired):
    outlet = Outlet()
    outlet.hand_over()
    with ManagedJoin(PLAN, batch=400, outlet=outlet, crew=hired(1)) as join:
        join.push(WHOLE)
        with pytest.raises(DeviceError, match="the consumer of the results has ended"):
            pulled(join)
    outlet.close()


def test_a_consumer_notices_a_join_that_breaks_off():
    outlet = Outlet()
    consumer = Consumer(outlet.fileno())
    outlet.close()
    with pytest.raises(DeviceError, match="before all of its results came"):
        list(consumer)
    consumer.close()


def test_an_order_needs_the_output_gate():
    with Outlet() as outlet, pytest.raises(ValueError, match="results in inner order pass"):
        ManagedJoin(replace(PLAN, order=Order("inner")), outlet=outlet)
