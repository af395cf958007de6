"""Both chains give what the definition gives, in the cycles that we promise."""

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline_hw.handshake.admission import Policy
from eddyline_hw.handshake.asynchronous import AsyncChain
from eddyline_hw.handshake.geometry import require_fit
from eddyline_hw.handshake.lockstep import LockstepChain
from tests.hw.handshake.joins import band_plan, expected, message, random_arrivals, timed_arrivals
from tests.hw.handshake.play import FLUSH, STAR, play

CHAINS = {"lockstep": LockstepChain, "asynchronous": AsyncChain}


def flat(pairs):
    return sorted(pair for core in pairs for pair in core)


@pytest.mark.parametrize("kind", CHAINS)
@settings(max_examples=8, deadline=None)
@given(
    cores=st.integers(1, 4),
    window_r=st.integers(1, 9),
    window_s=st.integers(1, 9),
    spare=st.integers(0, 4),
    lanes=st.integers(1, 3),
    seed=st.integers(0, 99),
    r_share=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    stall=st.sampled_from([(), (3,)]),
)
def test_every_pair_meets_once(kind, cores, window_r, window_s, spare, lanes, seed, r_share, stall):
    plan = band_plan()
    arrivals = random_arrivals(25, seed=seed, values=5, r_share=r_share)
    dut = CHAINS[kind](plan, cores=cores, window_r=window_r + spare, window_s=window_s, lanes=lanes)
    messages = [message(*one) for one in arrivals]
    messages = [*messages[:10], STAR, *messages[10:], FLUSH]
    pairs, _, outputs = play(dut, dut.settings(window_r, window_s), messages, stall=stall)
    assert flat(pairs) == sorted(expected(plan, arrivals, window_r, window_s))
    assert not outputs["overflow"]
    assert not outputs["dropped_results"]


def test_the_listing_as_printed_doubles_pairs():
    """Figure 7 compares two tuples that cross on both sides: the same test must see it."""
    plan = band_plan()
    doubled = 0
    for seed in range(6):
        arrivals = random_arrivals(30, seed=seed, values=3)
        dut = AsyncChain(plan, cores=3, window_r=8, window_s=8, lanes=2, as_printed=True)
        pairs, _, _ = play(dut, dut.settings(8, 8), [*(message(*a) for a in arrivals), FLUSH])
        found, right = flat(pairs), sorted(expected(plan, arrivals, 8, 8))
        assert set(found) == set(right)
        doubled += len(found) > len(right)
    assert doubled


@pytest.mark.parametrize("kind", CHAINS)
def test_after_a_flush_the_windows_are_empty(kind):
    plan = band_plan()
    arrivals = random_arrivals(20, seed=5, values=2)
    dut = CHAINS[kind](plan, cores=2, window_r=5, window_s=4)
    messages = [*(message(*one) for one in arrivals), FLUSH]
    pairs, _, _ = play(dut, dut.settings(5, 4), messages * 2)
    assert flat(pairs) == sorted(expected(plan, arrivals, 5, 4) * 2)


@pytest.mark.parametrize(
    ("cores", "window_r", "window_s", "lanes", "window"),
    [
        (1, 4, 4, 1, "auto"), (2, 8, 8, 4, "auto"), (3, 12, 12, 2, "shift"), (2, 9, 4, 2, "shift"),
        (2, 32, 32, 4, "lutram"), (2, 30, 16, 2, "lutram"), (2, 24, 24, 2, "bram"),
    ],
)  # fmt: skip
def test_a_tuple_enters_as_soon_as_the_last_one_is_compared(
    cores, window_r, window_s, lanes, window
):
    """One admission every max(1, ceil(segment / P)) cycles, without a bubble."""
    assert_admitted_every(
        LockstepChain(
            band_plan(),
            cores=cores,
            window_r=window_r,
            window_s=window_s,
            lanes=lanes,
            window=window,
        ),
        window_r,
        window_s,
        least=1,
    )


def test_a_small_window_in_a_large_memory_takes_three_cycles():
    dut = LockstepChain(band_plan(), cores=2, window_r=32, window_s=32, lanes=2, window="lutram")
    assert_admitted_every(dut, 4, 2, least=3)


def assert_admitted_every(dut, window_r, window_s, *, least):
    arrivals = random_arrivals(40, seed=1, values=250)
    messages = [*(message(*one) for one in arrivals), STAR]
    _, entered, outputs = play(dut, dut.settings(window_r, window_s), messages)
    gaps = [later - earlier for earlier, later in zip(entered, entered[1:], strict=False)]
    # A tuple is compared with the opposite segment.
    segment = {"r": ceil(window_s / dut.cores), "s": ceil(window_r / dut.cores)}
    assert gaps == [max(least, ceil(segment[side] / dut.lanes)) for side, _, _ in arrivals]
    assert outputs["paced"] == sum(gap - 1 for gap in gaps[:-1])


@pytest.mark.parametrize("kind", CHAINS)
def test_waiting_loses_nothing_when_everything_matches(kind):
    plan = band_plan()
    arrivals = random_arrivals(40, seed=2, values=1)
    dut = CHAINS[kind](plan, cores=2, window_r=16, window_s=16, lanes=4)
    messages = [*(message(*one) for one in arrivals), FLUSH]
    pairs, _, outputs = play(dut, dut.settings(16, 16), messages, ready=False)
    assert flat(pairs) == sorted(expected(plan, arrivals, 16, 16))
    assert outputs["throttled" if kind == "lockstep" else "waited"] > 0
    assert (outputs["dropped_results"], outputs["dropped_tuples"]) == (0, 0)


@pytest.mark.parametrize("kind", CHAINS)
def test_dropping_tuples_is_counted_and_the_rest_is_joined(kind):
    plan = band_plan()
    # Two long runs of one side, so that what is missing shows in the pairs.
    arrivals = random_arrivals(60, seed=3, values=1)
    dut = CHAINS[kind](plan, cores=2, window_r=8, window_s=8, lanes=2)
    messages = [*(message(*one) for one in arrivals), FLUSH]
    settings = dut.settings(8, 8, policy=Policy.DROP_NEW)
    pairs, _, outputs = play(dut, settings, messages, ready=False)
    found = flat(pairs)
    assert outputs["dropped_tuples"] > 0
    assert outputs["dropped_results"] == 0
    assert len(found) == len(set(found))
    # All pairs of what was admitted are there: the right result of some subsequence.
    admitted = {("r", r) for r, _ in found} | {("s", s) for _, s in found}
    kept = [one for one in arrivals if one[:2] in admitted]
    assert found == sorted(expected(plan, kept, 8, 8))
    assert len(kept) == len(arrivals) - outputs["dropped_tuples"]


@pytest.mark.parametrize("kind", CHAINS)
def test_nothing_is_dropped_only_because_comparing_takes_time(kind):
    plan = band_plan()
    arrivals = random_arrivals(60, seed=3, values=1)
    dut = CHAINS[kind](plan, cores=2, window_r=16, window_s=16)
    messages = [*(message(*one) for one in arrivals), FLUSH]
    pairs, _, outputs = play(dut, dut.settings(16, 16, policy=Policy.DROP_NEW), messages)
    assert flat(pairs) == sorted(expected(plan, arrivals, 16, 16))
    assert outputs["dropped_tuples"] == 0


@pytest.mark.parametrize("kind", CHAINS)
def test_a_key_comes_along_as_in_the_paper(kind):
    plan = band_plan()
    arrivals = random_arrivals(25, seed=7, values=4)
    keys = {number: words["x"] for side, number, words in arrivals if side == "r"}
    dut = CHAINS[kind](plan, cores=2, window_r=6, window_s=6, lanes=2, carried=["x"])
    carried = []
    messages = [*(message(*one) for one in arrivals), FLUSH]
    pairs, _, _ = play(dut, dut.settings(6, 6), messages, also=carried)
    assert flat(pairs) == sorted(expected(plan, arrivals, 6, 6))
    assert carried
    assert all(one.x == keys[one.r_id] for one in carried)


@pytest.mark.parametrize("kind", CHAINS)
def test_dropped_results_are_counted_one_by_one(kind):
    plan = band_plan()
    arrivals = random_arrivals(60, seed=4, values=1)
    dut = CHAINS[kind](plan, cores=1, window_r=16, window_s=16, lanes=4)
    messages = [*(message(*one) for one in arrivals), FLUSH]
    settings = dut.settings(16, 16, policy=Policy.DROP_RESULTS)
    pairs, _, outputs = play(dut, settings, messages, ready=False)
    found, right = flat(pairs), expected(plan, arrivals, 16, 16)
    assert outputs["dropped_results"] > 0
    assert outputs["dropped_tuples"] == 0
    assert set(found) <= set(right)
    assert len(found) + outputs["dropped_results"] == len(right)


@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize(("age", "overflow"), [(2, 0), (50, 1)])
def test_a_tuple_that_leaves_young_is_an_overflow(kind, age, overflow):
    plan, messages, right = timed_arrivals(30, age=age)
    dut = CHAINS[kind](plan, cores=2, window_r=6, window_s=6)
    pairs, _, outputs = play(dut, dut.settings(6, 6), [*messages, FLUSH])
    assert outputs["overflow"] == overflow
    if not overflow:
        assert flat(pairs) == sorted(right)


@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize(("count", "overflow"), [(8, 0), (20, 1)])
def test_nothing_may_leave_a_window_without_an_end(kind, count, overflow):
    arrivals = random_arrivals(count, seed=1)
    dut = CHAINS[kind](band_plan(), cores=2, window_r=8, window_s=8)
    messages = [*(message(*one) for one in arrivals), FLUSH]
    settings = dut.settings(8, 8, keep_r=True, keep_s=True)
    _, _, outputs = play(dut, settings, messages)
    assert outputs["overflow"] == overflow


@pytest.mark.parametrize("size", [0, 9])
def test_a_window_must_fit(size):
    with pytest.raises(ValueError, match=f"a window of {size} rows of S is not within 1 and the"):
        require_fit("s", size, 8)
