"""Joins without a C++ compiler: an index in numba, chosen and explained, that finds the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.cli import doctor
from eddyline.device.cpu import CpuDevice
from eddyline.engine import sorted_runs
from eddyline.engine.choice import choose
from eddyline.engine.sorted_join import SortedJoin
from eddyline.errors import DeviceError
from eddyline.plan import Window
from tests.host.engine.draws import Drawn, alone, joins, pulled, pushed, same
from tests.host.twin.joins import BAND, parts, plan, tuples

ROWS = Window("rows", 50)


@settings(max_examples=60)
@given(
    drawn=joins(orders=("none", "outer", "inner")),
    least=st.sampled_from([1, 8, 4096]),
    threads=st.sampled_from([1, 2]),
)
def test_sorted_runs_find_what_the_compiled_engines_find(drawn, least, threads):
    paths = choose(drawn.plan).paths
    if paths is None or any(path.unequal for path in paths):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "LEAST", least)
        engine = SortedJoin(drawn.plan, paths, threads=threads)
        for _ in range(2):
            assert same(pushed(engine, drawn), alone(drawn), drawn.plan.order)
            engine.flush()
        engine.close()


def test_windows_walk_through_many_runs(monkeypatch):
    """Runs are merged, sealed and expire; few are left, and they hold little more than windows."""
    monkeypatch.setattr(sorted_runs, "LEAST", 16)
    window = Window("rows", 200)
    one = plan(BAND, window, window)
    whole = tuples(BAND, "rs" * 1500, 5)
    engine = SortedJoin(one, choose(one, "sorted").paths or [])
    found = []
    for piece in parts(whole, list(range(7, 3000, 7))):
        engine.push(piece)
        found += pulled(engine)
        for runs in engine._runs[0]:
            assert len(runs.runs) < 20
            assert sum(map(len, runs.runs)) < 400
    assert sorted(found) == sorted(alone(Drawn(one, whole, [])))


def test_without_a_compiler_the_index_in_numba_is_chosen(monkeypatch, caplog):
    monkeypatch.setattr("eddyline.build.native.shutil.which", lambda name: None)
    one = plan(BAND, ROWS, ROWS)
    assert choose(one).engine == "sorted"
    assert choose(one).reason.startswith("no C++ compiler: sorted runs in numba")
    assert choose(plan("r.x <> s.a", ROWS, ROWS)).engine == "nested"
    with CpuDevice(threads=1) as device:
        device.configure(one)
        assert device.choice.engine == "sorted"
        device.push(tuples(BAND, "rs" * 100, 1))
        assert len(device.pull())
    assert "sorted runs in numba" in caplog.text
    assert "slower engines in numba" in doctor._compiler()[1]


def test_a_compiler_that_gives_up_is_no_compiler(monkeypatch):
    from eddyline.errors import MachineError

    def give_up(*args, **options):
        raise MachineError("engine did not compile")

    monkeypatch.setattr("eddyline.engine.indexed.library", give_up)
    with CpuDevice(threads=1) as device:
        device.configure(plan(BAND, ROWS, ROWS))
        assert device.choice.engine == "sorted"
        assert device.choice.reason.startswith("engine did not compile: ")
    with pytest.raises(DeviceError, match="engine 'rap': engine did not compile"):
        CpuDevice(engine="rap").configure(plan(BAND, ROWS, ROWS))


def test_inequalities_are_refused():
    with pytest.raises(DeviceError, match="engine 'sorted' does not serve inequalities"):
        choose(plan("r.x <> s.a", ROWS, ROWS), "sorted")


def test_intervals_of_two_attributes_are_found_though_upper_bounds_fall():
    run = sorted_runs.Run.of(
        np.array([1, 3, 2], np.uint64), np.array([9, 3, 2], np.uint64), np.array([5, 6, 7])
    )
    begin, end = run.lookup(np.array([4], np.uint64), np.array([4], np.uint64))
    found = sorted_runs.expanded(
        run, begin, end, np.array([4], np.uint64), np.array([0]), np.array([100])
    )
    assert [one.tolist() for one in found] == [[0], [5]]
