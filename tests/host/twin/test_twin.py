"""The twin on worker processes against the definition, pair by pair."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.device.cpu import CpuDevice
from eddyline.engine.history import History
from eddyline.errors import DeviceError
from eddyline.plan import Window
from eddyline.twin import HandshakeTwin
from eddyline.twin.channel import Code
from tests.host.twin.joins import BAND, SORTED, UNSORTED, defined, joined, parts, plan, tuples

KINDS = [
    ("asynchronous", "nested", 3),
    ("asynchronous", "merge", 3),
    ("lockstep", "nested", 3),
    ("lockstep", "merge", 2),
    ("asynchronous", "nested", 1),
]
ROWS = Window("rows", 5)
WINDOWS = st.one_of(
    st.builds(Window, st.just("rows"), st.sampled_from([1, 2, 5, 30, 1000])),
    st.builds(Window, st.just("time"), st.integers(0, 40)),
    st.just(Window("unbounded")),
)
SIDES = st.one_of(
    st.text("rs", max_size=120),
    st.sampled_from(["", "r" * 40, "s" * 40, "r" * 50 + "s" * 50, "rs" * 60, "rssssssss" * 12]),
)


@pytest.fixture(scope="module")
def twins():
    """Twins by kind. A process takes a second to start, so that tests share them."""
    started: dict[tuple, HandshakeTwin] = {}

    def get(kind: tuple[str, str, int]) -> HandshakeTwin:
        if kind not in started:
            chain, local, processes = kind
            started[kind] = HandshakeTwin(
                plan(BAND, ROWS, ROWS), processes=processes, chain=chain, local=local
            )
        return started[kind]

    yield get
    for twin in started.values():
        twin.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
@settings(max_examples=25)
@given(data=st.data())
def test_every_pair_comes_out_once(twins, kind, data):
    twin = twins(kind)
    on = data.draw(
        st.sampled_from(list((SORTED | UNSORTED if kind[1] == "nested" else SORTED).values()))
    )
    lowered = plan(on, data.draw(WINDOWS), data.draw(WINDOWS))
    twin.block = data.draw(st.sampled_from([1, 3, 16, 128]))
    twin.configure(lowered)
    for seed in range(data.draw(st.integers(1, 2))):
        whole = tuples(on, data.draw(SIDES), seed)
        pieces = parts(whole, data.draw(st.lists(st.integers(0, 120), max_size=4)))
        assert joined(twin, pieces) == defined(lowered, whole)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
def test_a_longer_run_with_many_results(twins, kind):
    """More blocks in flight than channels hold, and more results than a packet holds."""
    twin = twins(kind)
    lowered = plan(BAND, Window("rows", 400), Window("rows", 150))
    rng = np.random.default_rng(1)
    whole = tuples(BAND, "".join(rng.choice(["r", "s"], 2000)), 1)
    with CpuDevice(threads=1) as device:
        device.configure(lowered)
        device.push(whole)
        peer = device.flush()
    expected = Counter(zip(peer.r_id.tolist(), peer.s_id.tolist(), strict=True))
    twin.block = 128 if kind[1] == "merge" else 4
    twin.configure(lowered)
    found = joined(twin, parts(whole, [7, 1000, 1001]))
    assert found == expected
    assert len(found) > 100_000
    counters = twin.counters()
    assert counters["tuples"] == 2000
    assert counters["results"] == len(found)
    assert all(counters[f"busy_seconds_{place}"] > 0 for place in range(kind[2]))


def test_a_second_flush_does_nothing(twins):
    twin = twins(KINDS[0])
    twin.configure(plan(BAND, ROWS, ROWS))
    joined(twin, parts(tuples(BAND, "rs" * 20, 1), []))
    assert not len(twin.flush()[0])
    assert joined(twin, parts(tuples(BAND, "", 1), [])).total() == 0


def test_the_check_can_fail(twins, monkeypatch):
    """Windows that are one tuple too short are noticed."""
    twin = twins(KINDS[0])
    lowered = plan("TRUE", ROWS, ROWS)
    twin.block = 4
    twin.configure(lowered)
    starts = History.window_starts

    def late(self, stops, now):
        return np.minimum(starts(self, stops, now) + 1, stops)

    monkeypatch.setattr(History, "window_starts", late)
    whole = tuples("TRUE", "rs" * 20, 1)
    assert joined(twin, parts(whole, [])) != defined(lowered, whole)


@pytest.mark.parametrize("on", UNSORTED.values(), ids=UNSORTED)
def test_a_merge_join_refuses_what_it_cannot_sort(on):
    with pytest.raises(DeviceError, match="use the nested loop"):
        HandshakeTwin(plan(on, ROWS, ROWS), processes=1, local="merge")


def test_impossible_settings_are_refused():
    lowered = plan(BAND, ROWS, ROWS)
    with pytest.raises(ValueError, match=r"no chain 'lock' \(known: asynchronous, lockstep\)"):
        HandshakeTwin(lowered, processes=1, chain="lock")
    with pytest.raises(ValueError, match=r"no local join 'hash' \(known: nested, merge\)"):
        HandshakeTwin(lowered, processes=1, local="hash")
    with pytest.raises(ValueError, match=r"processes \(0\)"):
        HandshakeTwin(lowered, processes=0)
    with pytest.raises(ValueError, match=r"a block of 100000 such tuples is too large"):
        HandshakeTwin(lowered, processes=1, block=100_000)


def test_a_worker_that_fails_says_why():
    with HandshakeTwin(plan(BAND, ROWS, ROWS), processes=1) as twin:
        twin._workers.broadcast(Code.CONFIGURE, data=b"{}")
        with pytest.raises(DeviceError, match=r"worker 0 of 1 failed:(.|\n)*plan version None"):
            twin._workers.answers(Code.READY)
        with pytest.raises(DeviceError, match="start another twin"):
            twin.flush()
