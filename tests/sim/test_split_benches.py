"""SplitJoin and its parts as compiled RTL, under their cocotb benches."""

import pytest

from tests.sim import split_blocks as blocks

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("inputs", "fan_in", "options"),
    [
        (3, 4, {"bound": 3}),
        (5, 2, {"bound": 2 * 2 * 2}),
        (5, 2, {"bound": 2 * 2 * 2, "stalls": True}),
        pytest.param(9, 8, {"bound": 2 * 5}, marks=SLOW),
    ],
)
def test_collection_tree(inputs, fan_in, options):
    blocks.collected(inputs, fan_in=fan_in, **options).run()


@pytest.mark.parametrize("stalls", [False, pytest.param(True, marks=SLOW)])
def test_combiner(stalls):
    blocks.combined(stalls=stalls).run()


@pytest.mark.parametrize("stalls", [False, pytest.param(True, marks=SLOW)])
def test_every_pair_comes_before_its_star(stalls):
    blocks.split_join(stalls=stalls).run()


@SLOW
def test_with_a_core_that_hangs():
    blocks.split_join(hung=[1]).run()


def test_no_cycle_is_for_nothing():
    blocks.split_join("splitjoin_rate").run()


@pytest.mark.parametrize("stalls", [False, pytest.param(True, marks=SLOW)])
def test_cores_may_be_switched_off(stalls):
    blocks.split_join("splitjoin_faults", stalls=stalls).run()


@pytest.mark.parametrize("stalls", [False, pytest.param(True, marks=SLOW)])
def test_sides_may_come_out_separately(stalls):
    blocks.separate(stalls=stalls).run()


def test_intervals_may_adapt():
    blocks.adaptive().run()


@pytest.mark.parametrize(
    ("timed", "stalls"),
    [("rs", False), pytest.param("rs", True, marks=SLOW), pytest.param("r", False, marks=SLOW)],
)
def test_windows_of_time(timed, stalls):
    blocks.split_join_time(timed=timed, stalls=stalls).run()
