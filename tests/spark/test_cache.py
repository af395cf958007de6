"""Units in a worker's memory are a cache of the state, and only that."""

import json
from collections import Counter, defaultdict

import pytest

from eddyline.spark import cache, stream_join
from tests.spark.streams import Rows, band, brute, finished, seconds, stream


class FakeUnit:
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def empty(monkeypatch):
    monkeypatch.setattr(cache, "counts", defaultdict(Counter))
    monkeypatch.setattr(cache, "_units", type(cache._units)())


def test_a_unit_is_used_again_only_if_its_mark_is_that_of_the_state(empty):
    unit = FakeUnit()
    assert cache.take(("q", 0), None) is None
    cache.give_back(("q", 0), "one", unit, most=9)
    assert cache.take(("q", 0), "one") is unit
    assert cache.take(("q", 0), "one") is None  # it was taken
    cache.give_back(("q", 0), "two", unit, most=9)
    # The attempt that wrote "two" was not the one that was committed.
    assert cache.take(("q", 0), "one") is None
    assert unit.closed
    assert cache.counts["q"] == {"new": 1, "hit": 1, "lost": 1, "stale": 1}


def test_a_state_that_began_anew_makes_a_unit_stale(empty):
    cache.give_back(("q", 0), "one", FakeUnit(), most=9)
    assert cache.take(("q", 0), None) is None
    assert cache.counts["q"] == {"stale": 1}


def test_the_unit_that_was_not_used_for_longest_goes_first(empty):
    units = [FakeUnit() for _ in range(3)]
    for number, unit in enumerate(units):
        cache.give_back(("q", number), "m", unit, most=2)
    assert [unit.closed for unit in units] == [True, False, False]
    assert cache.take(("q", 0), "m") is None


def test_workers_keep_units_between_batches(spark, tmp_path):
    """Counted in real worker processes: the second batch finds the unit of the first."""
    r, s = Rows.random(1, 200), Rows.random(2, 200)
    for name, rows in (("r", r), ("s", s)):
        rows.write(tmp_path / name, 4)
    spark.conf.set("spark.eddyline.metrics", str(tmp_path / "metrics"))
    try:
        joined = stream_join(
            *(stream(spark, tmp_path / name) for name in "rs"), "abs(r.x - s.x) <= 2",
            window="time:9s", time="t", select="r.n AS r, s.n AS s",
        )  # fmt: skip
    finally:
        spark.conf.unset("spark.eddyline.metrics")
    assert finished(joined, tmp_path / "out") == brute(r, s, band(r, s, 2), seconds(9, 9))
    counts = Counter()
    for name in (tmp_path / "metrics").glob("*.json"):
        counts.update(json.loads(name.read_text()))
    assert counts["new"] == 1
    assert counts["hit"] >= 1
    assert counts["hit"] + counts["lost"] + counts["stale"] >= 3
