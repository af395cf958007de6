"""A compiled operator takes and gives whole arrays, and notices when one misbehaves."""

import _thread
import signal
import threading

import numpy as np
import pytest

from eddyline.errors import DeviceError
from eddyline_sim.simulation import ContractViolated, Simulation, SimulationStuck
from tests.sim.operators import Adder, Crossing, Faulty, Widener

STAGES = 3


def rows(count, *, stars=()):
    """Return payloads of ``operators.ROW`` with values from 0 on, and their values."""
    values = np.arange(count, dtype=np.uint64) * np.uint64(0x1_2345_6789) % np.uint64(1 << 40)
    payloads = values.copy()
    payloads[list(stars)] |= np.uint64(1 << 40)
    return payloads.view(np.uint32).reshape(-1, 2), values


def values_of(payloads):
    whole = payloads.copy().view(np.uint64)[:, 0]
    return whole & np.uint64((1 << 40) - 1), whole >> np.uint64(40)


@pytest.fixture(scope="module")
def adder():
    with Simulation(Adder(stages=STAGES), name="adder") as simulation:
        yield simulation


@pytest.fixture
def fresh(adder):
    adder.stall(0)
    adder.idle(0)
    adder.stamped = False
    adder.set("offset", 7)
    adder.reset()
    return adder


@pytest.fixture(scope="module")
def faulty():
    with Simulation(Faulty(), name="faulty") as simulation:
        yield simulation


def expected(values, offset):
    added = STAGES * offset + sum(range(STAGES))
    return (values + np.uint64(added)) % np.uint64(1 << 40)


def test_rows_come_out_in_order_one_per_cycle(fresh):
    payloads, values = rows(5000, stars=[4999])
    result, stars = values_of(fresh.run(payloads, until_star=True))
    assert (result == expected(values, 7)).all()
    assert stars.nonzero()[0].tolist() == [4999]
    # One cycle for the harness's register, one per stage, one to see the last row taken.
    assert fresh.cycles == fresh.get("cycles") == 5000 + STAGES + 1


@pytest.mark.parametrize(("idle", "stall"), [(100, 0), (0, 100), (200, 200), (30, 250)])
def test_gaps_and_stalls_change_time_only(fresh, idle, stall):
    fresh.idle(idle, seed=1)
    fresh.stall(stall, seed=2)
    payloads, values = rows(300, stars=[7, 299])
    result, stars = values_of(fresh.run(payloads, until_star=True))
    assert (result == expected(values, 7)).all()
    assert stars.nonzero()[0].tolist() == [7, 299]
    slowest = 300 * 256 / (256 - max(idle, stall))
    assert fresh.cycles > 0.8 * slowest


def test_the_same_seed_gives_the_same_cycles(fresh):
    cycles = []
    for seed in (5, 5, 6):
        fresh.reset()
        fresh.stall(128, seed)
        fresh.run(rows(300, stars=[299])[0], until_star=True)
        cycles.append(fresh.cycles)
    assert cycles[0] == cycles[1] != cycles[2]


def test_settings_and_counters(fresh):
    assert fresh.settings == {"offset": 7}
    assert fresh.counters == ("taken", "full")
    fresh.set("offset", 65535)
    payloads, values = rows(10, stars=[9])
    result, _ = values_of(fresh.run(payloads, until_star=True))
    assert (result == expected(values, 65535)).all()
    assert fresh.get("taken") == 10
    fresh.reset()
    assert fresh.get("taken") == 0
    assert fresh.settings == {"offset": 65535}
    with pytest.raises(ValueError, match="no setting 'ofset' .known: offset"):
        fresh.set("ofset", 1)
    with pytest.raises(ValueError, match="'offset' has 16 bits, 65536 has more"):
        fresh.set("offset", 65536)
    with pytest.raises(ValueError, match="no counter 'lost' .known: taken, full, cycles"):
        fresh.get("lost")


def test_without_star_it_returns_when_all_is_taken(fresh):
    payloads, values = rows(10)
    first = fresh.run(payloads, until_star=False)
    assert len(first) < 10
    assert fresh.get("taken") == 10
    rest = fresh.step(STAGES)
    assert (values_of(np.concatenate([first, rest]))[0] == expected(values, 7)).all()
    assert len(fresh.run(payloads[:0], until_star=False)) == 0


def test_stars_of_an_earlier_call_are_waited_for(fresh):
    first = fresh.run(rows(1, stars=[0])[0], until_star=False)
    assert len(first) == 0
    result = fresh.run(rows(1, stars=[0])[0], until_star=True)
    assert values_of(result)[1].tolist() == [1, 1]


def test_more_output_than_one_buffer_holds(fresh):
    fresh.stall(255, seed=1)
    fresh.run(rows(STAGES)[0], until_star=False)
    fresh.stall(0)
    payloads, _ = rows(1024, stars=[1023])
    assert len(fresh.run(payloads, until_star=True)) in range(1024, 1025 + STAGES)


def test_transfers_have_time_stamps(fresh):
    fresh.stamped = True
    fresh.run(rows(5, stars=[4])[0], until_star=True)
    # The first offer is made at edge 0 and taken at edge 1.
    assert fresh.taken_at.tolist() == [1, 2, 3, 4, 5]
    assert fresh.given_at.tolist() == [one + STAGES for one in (1, 2, 3, 4, 5)]
    begun = fresh.cycles
    fresh.run(rows(2)[0], until_star=False)
    assert fresh.taken_at.tolist() == [begun + 1, begun + 2]
    assert len(fresh.given_at) == 0
    fresh.step(STAGES)
    assert len(fresh.taken_at) == 0
    assert fresh.given_at.tolist() == [begun + 1 + STAGES, begun + 2 + STAGES]


def test_time_stamps_show_gaps_and_stalls_over_several_buffers(fresh):
    fresh.stamped = True
    fresh.stall(255, seed=1)
    inside = STAGES - len(fresh.run(rows(STAGES)[0], until_star=False))
    before = fresh.cycles
    fresh.stall(40, seed=2)
    fresh.idle(40, seed=3)
    out = fresh.run(rows(1024, stars=[1023])[0], until_star=True)
    assert len(out) == len(fresh.given_at) == 1024 + inside > 1024  # more than one buffer
    for stamps in (fresh.taken_at, fresh.given_at):
        steps = np.diff(stamps.astype(np.int64))
        assert steps.min() == 1
        assert steps.max() > 1
        assert stamps[0] >= before
    assert (fresh.given_at[inside:] >= fresh.taken_at + np.uint64(STAGES)).all()
    assert fresh.given_at[-1] == fresh.cycles - 1


def test_there_are_no_stamps_unless_asked_for(fresh):
    fresh.stamped = True
    fresh.run(rows(1)[0], until_star=False)
    fresh.stamped = False
    fresh.run(rows(5, stars=[4])[0], until_star=True)
    assert len(fresh.taken_at) == len(fresh.given_at) == 0


def test_simulations_of_different_designs_and_the_same_run_side_by_side(adder, faulty):
    payloads, values = rows(20_000, stars=[19_999])
    results = {}

    def work(name, component):
        with Simulation(component, name=name) as simulation:
            results[name] = values_of(simulation.run(payloads, until_star=True))[0]

    threads = [
        threading.Thread(target=work, args=(name, component))
        for name, component in (
            ("adder", Adder(stages=STAGES)), ("faulty", Faulty()), ("adder-2", Adder(stages=STAGES))
        )
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (results["adder"] == expected(values, 7)).all()
    assert (results["adder-2"] == expected(values, 7)).all()
    assert (results["faulty"] == values).all()


@pytest.mark.parametrize("ratio", [1.0, 1.37, 0.21, 3.0])
@pytest.mark.parametrize("output_domain", ["sync", "merge"])
def test_rows_cross_clock_domains(ratio, output_domain):
    component = Crossing(output_domain=output_domain)
    with Simulation(component, name=f"crossing-{output_domain}", merge_clock=ratio) as simulation:
        simulation.stall(60, seed=3)
        payloads, values = rows(2000, stars=[1000, 1999])
        before = simulation.get("late")
        result, stars = values_of(simulation.run(payloads, until_star=True))
        assert (result == values).all()
        assert stars.nonzero()[0].tolist() == [1000, 1999]
        merge_cycles = simulation.get("late") - before
        assert merge_cycles == pytest.approx(ratio * simulation.cycles, abs=2 + ratio)


def test_wide_and_narrow_payloads_without_stars():
    with Simulation(Widener(), name="widener") as simulation:
        result = simulation.run(np.array([[0x1AB], [5]]), until_star=False)
        result = np.concatenate([result, simulation.step(2)])
        assert result.tolist() == [[0xABABABAB] * 3 + [0], [0x05050505] * 3 + [0]]
        with pytest.raises(ValueError, match="needs a field 'star'"):
            simulation.run(np.zeros((1, 1)), until_star=True)
        with pytest.raises(ValueError, match="always ready"):
            simulation.stall(10)
        with pytest.raises(ValueError, match=r"shape \(n, 1\), not \(1, 2\)"):
            simulation.run(np.zeros((1, 2)), until_star=False)


@pytest.mark.parametrize(
    ("fault", "taken", "owed"), [(1, "5 of 20 inputs taken", 0), (2, "20 of 20 inputs", 1)]
)
def test_a_stuck_operator_is_given_up(faulty, fault, taken, owed):
    faulty.stall(0)
    faulty.set("fault", fault)
    faulty.reset()
    payloads, _ = rows(20, stars=[19])
    with pytest.raises(SimulationStuck, match=f"nothing moved for 500 .*{taken}.*{owed}") as info:
        faulty.run(payloads, until_star=True, patience=500)
    assert info.value.cycle in range(500, 530)
    with pytest.raises(DeviceError, match="must be reset after: .* is stuck"):
        faulty.run(payloads, until_star=True)
    faulty.set("fault", 0)
    faulty.reset()
    assert len(faulty.run(payloads, until_star=True)) == 20


@pytest.mark.parametrize(("fault", "what"), [(3, "offer was withdrawn"), (4, "offer changed")])
def test_a_broken_stream_contract_is_reported(faulty, fault, what):
    faulty.set("fault", fault)
    payloads, _ = rows(50, stars=[49])
    faulty.stall(0)
    faulty.reset()
    assert len(faulty.run(payloads, until_star=True)) == 50
    faulty.stall(128, seed=1)
    with pytest.raises(ContractViolated, match=what):
        faulty.run(payloads, until_star=True)


@pytest.fixture
def interruptible():
    """Have SIGINT raise an exception: what a shell runs in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_long_run_can_be_interrupted(faulty):
    faulty.stall(0)
    faulty.set("fault", 2)
    faulty.reset()
    payloads, _ = rows(5, stars=[4])
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        faulty.run(payloads, until_star=True, patience=1 << 60)
    timer.join()
    with pytest.raises(DeviceError, match="must be reset after: an interrupted run"):
        faulty.run(payloads, until_star=False)
    faulty.reset()
    faulty.run(payloads, until_star=False)


def test_a_closed_simulation_says_so():
    simulation = Simulation(Faulty(), name="faulty")
    simulation.close()
    simulation.close()
    with pytest.raises(DeviceError, match="simulation faulty is closed"):
        simulation.run(rows(1)[0], until_star=False)
