"""The simulated handshake device beyond its results: reuse, interruption, long flushes."""

import numpy as np
import pytest

from eddyline.device import Tuples, sim_handshake
from eddyline.device.sim_handshake import HandshakeDevice
from eddyline.errors import DeviceError
from eddyline.plan import Compare, Layout, Order, Plan, Window, Word
from eddyline_sim.simulation import Simulation

WORD = Layout((Word("w0", 8, False, "x"),), ())


def plan(window=6, order="none"):
    rows = Window("rows", window)
    return Plan(WORD, WORD, Compare(0, "eq", 0), rows, rows, Order(order), False)


def tuples(count, *, value=lambda side, i: i % 3):
    sides = np.tile(np.array([0, 1], np.uint8), count)
    records = [np.zeros(count, np.dtype(WORD.fields)) for _ in "rs"]
    for number, side in enumerate(records):
        side["id"], side["valid"] = np.arange(count), 1
        side["w0"] = [value(number, i) for i in range(count)]
    return Tuples(sides, *records)


def pairs_of(device):
    found = []
    while not (results := device.pull()).nothing:
        found += zip(results.r_id.tolist(), results.s_id.tolist(), strict=True)
    results = device.flush()
    return sorted(found + list(zip(results.r_id.tolist(), results.s_id.tolist(), strict=True)))


def expected(count, window, value=lambda side, i: i % 3):
    """Return the pairs of tuples taken alternately, R first."""
    return sorted(
        (r, s)
        for r in range(count)
        for s in range(count)
        if value(0, r) == value(1, s) and (r - window <= s < r or s - window < r <= s)
    )


@pytest.fixture
def device():
    with HandshakeDevice(cores=2, window=8, comparators=2) as one:
        yield one


def test_a_device_can_be_configured_again_and_flushed_again(device):
    for window in (6, 3, 8):
        device.configure(plan(window))
        for _ in range(2):
            device.push(tuples(20))
            assert pairs_of(device) == expected(20, window)
        assert device.flush().nothing
        assert device.counters()["tuples"] == 80


def test_simulations_are_used_again():
    designs = set()
    for _ in range(2):
        with HandshakeDevice(cores=2, window=8, comparators=2) as one:
            one.configure(plan())
            designs.add(id(one._simulation))
    assert len(designs) == 1


def test_an_interrupted_run_can_still_be_reported_but_is_not_used_again(device, monkeypatch):
    device.configure(plan())
    device.push(tuples(20))
    pairs_of(device)
    device.push(tuples(20))
    library = device._simulation._library

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(library, "eddyline_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.pull()
    assert device.counters()["tuples"] == 80
    broken = device._simulation
    device.configure(plan())
    assert device._simulation is not broken
    device.push(tuples(20))
    assert pairs_of(device) == expected(20, 6)


def test_a_long_flush_without_results_is_not_taken_for_a_standstill(device, monkeypatch):
    monkeypatch.setattr(sim_handshake, "PATIENCE", 30)
    device.configure(plan(8))
    device.push(tuples(4, value=lambda side, i: side))
    assert pairs_of(device) == []
    assert device.counters()["flush_cycles"] > 0


def test_a_loss_that_was_not_allowed_is_an_error(device, monkeypatch):
    device.configure(plan())
    device.push(tuples(20))
    pairs_of(device)
    right = Simulation.get
    monkeypatch.setattr(
        Simulation, "get", lambda self, name: 3 if name == "dropped_results" else right(self, name)
    )
    with pytest.raises(DeviceError, match="6 results were lost in a queue that should have had"):
        device.counters()


def test_sequence_numbers_are_counted_from_the_last_flush(device):
    """Ids are the host's; the chain's numbers start again, and both are told apart."""
    device.configure(plan(order="inner"))
    device.push(tuples(10))
    pairs_of(device)
    late = tuples(10)
    late.r["id"] += 100
    late.s["id"] += 100
    device.push(late)
    assert pairs_of(device) == [(r + 100, s + 100) for r, s in expected(10, 6)]
