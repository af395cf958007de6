"""What a manager and its workers find, hand over and say of themselves."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.engine.manager import Crew, ManagedJoin
from eddyline.plan import Window
from tests.host.engine.draws import alone, joins, pulled, pushed, same
from tests.host.twin.joins import BAND, parts, plan, tuples

ROWS = Window("rows", 40)
SHARING = st.sampled_from(["subwindows", "tuples"])
SIZES = st.sampled_from([1, 5, 1000])
# Predicates that no index serves take seconds of compiling in every worker.
DRAWN = joins(indexed=True, orders=("none", "outer", "inner"))


def check(drawn, sharing: str, batch: int, crew: Crew) -> None:
    with ManagedJoin(drawn.plan, share=sharing, batch=batch, subwindows=7, crew=crew) as join:
        for _ in range(2):
            assert same(pushed(join, drawn), alone(drawn), drawn.plan.order)
            join.flush()
            assert join.pull() is None


@settings(max_examples=60)
@given(drawn=DRAWN, sharing=SHARING, batch=SIZES, workers=st.sampled_from([1, 3]))
def test_workers_find_what_one_process_finds(hired, drawn, sharing, batch, workers):
    check(drawn, sharing, batch, hired(workers))


@pytest.mark.slow
@settings(max_examples=3000)
@given(drawn=DRAWN, sharing=SHARING, batch=SIZES, workers=st.sampled_from([1, 2, 3, 4]))
def test_workers_find_what_one_process_finds_thoroughly(hired, drawn, sharing, batch, workers):
    check(drawn, sharing, batch, hired(workers))


@pytest.mark.parametrize("sharing", ["subwindows", "tuples"])
def test_memory_is_renewed_many_times_over(hired, sharing, monkeypatch):
    """Windows walk through segments much smaller than the stream."""
    monkeypatch.setattr("eddyline.engine.manager.shared.LEAST", 64)
    window = Window("rows", 100)
    whole = tuples(BAND, "rss" * 1000, 5)
    one = plan(BAND, window, window)
    with ManagedJoin(one, share=sharing, batch=50, crew=hired(3)) as join:
        join.push(whole)
        found = pulled(join)
        # A thousand tuples and more of each side have come; a window of them is kept.
        for name, array in join._mirror.arrays():
            assert len(array._values) <= (8000 if name == "keys" else 1000)  # keys are bytes
        assert all(array.moves > 4 for _, array in join._mirror.arrays())
    with ManagedJoin(one, workers=1, crew=hired(1)) as join:
        join.push(whole)
        assert sorted(found) == sorted(pulled(join))


def test_a_batch_is_closed_by_count(hired):
    whole = tuples(BAND, "rs" * 12, 1)
    with ManagedJoin(plan(BAND, ROWS, ROWS), batch=10, linger=600, crew=hired(3)) as join:
        join.push(whole)
        *_, last = iter(join.pull, None)
        assert last.closed == 20
        assert join.report()["batches"] == 2
        join.end()
        *_, last = iter(join.pull, None)
        assert last.closed == 24
        assert join.report()["batches"] == 3


def test_a_batch_is_closed_by_time(hired):
    whole = tuples(BAND, "rs" * 12, 1)
    with ManagedJoin(plan(BAND, ROWS, ROWS), batch=1000, linger=0.2, crew=hired(3)) as join:
        began = time.monotonic()
        join.push(whole)
        early = join.pull()
        assert early is None or time.monotonic() - began >= 0.2
        time.sleep(0.2)
        *_, last = iter(join.pull, None)
        assert last.closed == len(whole)
        assert join.report()["batches"] == 1


def test_a_batch_gets_smaller_where_arrivals_have_many_pairs(hired, monkeypatch):
    monkeypatch.setattr("eddyline.engine.manager.managed.PAIRS", 200)
    window = Window("rows", 100)
    whole = tuples("r.x <> s.a", "rs" * 200, 1)
    with ManagedJoin(plan("r.x <> s.a", window, window), batch=100, crew=hired(3)) as join:
        join.push(whole)
        found = pulled(join)
        assert join.report()["batches"] > 20
        assert join.report()["results"] == len(found) > 10_000


class Overheard(Crew):
    """Workers whose orders are written down."""

    def __init__(self, count: int):
        self.orders: list[tuple[int, str]] = []
        super().__init__(count)

    def send(self, place, message, fd=None):
        self.orders.append((place, message["do"]))
        super().send(place, message, fd)

    def told(self, what: str) -> list[int]:
        places = [place for place, order in self.orders if order == what]
        self.orders.clear()
        return places


def test_only_workers_with_something_to_do_are_told():
    """R and S of windows without end are in one place each, the third has nothing to compare."""
    endless = Window("unbounded")
    crew = Overheard(3)
    whole = tuples(BAND, "rs" * 50, 1)
    with ManagedJoin(plan(BAND, endless, endless), batch=10, crew=crew) as join:
        join.push(whole)
        pulled(join)
        assert crew.told("join") == [0, 1] * 10
    # Subwindows of two tuples: R is on the first and then the second worker, S comes later.
    window = Window("rows", 24)
    r_first = tuples(BAND, "rr" + "rr" + "s" + "s", 1)
    with ManagedJoin(plan(BAND, window, window), batch=2, subwindows=12, crew=crew) as join:
        for piece in parts(r_first, [2, 4, 5]):
            join.push(piece)
            pulled(join)
        # Both pieces of S meet R where it is; it is the second worker that stores S.
        assert crew.told("join") == [0, 1, 0, 1, 0, 1]
    crew.close()


def test_a_worker_is_told_to_forget_what_nobody_asks_for():
    window = Window("time", 0)
    crew = Overheard(2)
    with ManagedJoin(plan(BAND, window, window), batch=1, crew=crew) as join:
        join.push(tuples(BAND, "r" * 30, 1))
        pulled(join)
        assert set(crew.told("expire")) == {0, 1}
    crew.close()


def test_status_comes_with_results(hired):
    window = Window("rows", 80)
    whole = tuples(BAND, "rs" * 300, 1)
    with ManagedJoin(plan(BAND, window, window), batch=20, subwindows=4, crew=hired(2)) as join:
        join.push(whole)
        pulled(join)
        statuses = join.status()
        for status in statuses:
            for side in status.held:
                assert 0 < side.tuples <= 80
                assert side.oldest < side.end <= 300
        # The last subwindow of 20 ends with tuple 300.
        assert all(any(status.held[side].full for status in statuses) for side in (0, 1))
        assert max(status.held[0].end for status in statuses) == 300
        assert sum(status.comparisons for status in statuses) == join.report()["comparisons"]


def test_threads_of_a_worker_change_nothing(hired):
    window = Window("rows", 500)
    whole = tuples(BAND, "rs" * 2000, 1)
    found = []
    for threads in (1, 3):
        one = plan(BAND, window, window)
        with ManagedJoin(one, batch=3000, threads=threads, crew=hired(3)) as join:
            join.push(whole)
            found.append(sorted(pulled(join)))
    assert found[0] == found[1]


def test_what_cannot_be_asked_for():
    one = plan(BAND, ROWS, ROWS)
    with pytest.raises(ValueError, match="no way of sharing called 'rows'"):
        ManagedJoin(one, share="rows")
    with pytest.raises(ValueError, match="at least 1 arrival, not 0"):
        ManagedJoin(one, batch=0)
    with pytest.raises(ValueError, match="at least 1 worker, not 0"):
        ManagedJoin(one, workers=0)
