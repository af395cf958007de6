"""Units in a worker's memory are a cache of the state, and only that."""

from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException

from eddyline.spark import cache, stream_join
from tests.spark.streams import Rows, band, brute, counted, finished, seconds, stream


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


def test_units_of_a_query_that_was_stopped_go_after_a_while(empty, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=lambda: now[0]))
    old, other, slow = FakeUnit(), FakeUnit(), FakeUnit()
    cache.give_back(("stopped", 0), "m", old, most=9)
    cache.give_back(("running", 1), "m", slow, most=9)
    now[0] = cache.IDLE
    cache.give_back(("running", 0), "m", other, most=9)
    assert not old.closed
    now[0] += 1
    cache.give_back(("running", 2), "m", FakeUnit(), most=9)
    assert old.closed
    assert cache.counts["stopped"] == {"evicted": 1}
    # One whose batches are far apart keeps its units.
    assert cache.take(("running", 1), "m") is slow
    assert not slow.closed


def test_processes_of_several_hosts_count_in_one_folder(empty, monkeypatch, tmp_path):
    for host in ("one.example", "two.example"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        cache.counts["q"]["new"] += 1
        cache.report(str(tmp_path), "q")
    assert counted(tmp_path) == {"new": 1 + 2}


@pytest.fixture
def metrics(spark, tmp_path):
    """Let worker processes count what becomes of units; settings end with the test."""
    spark.conf.set("spark.eddyline.metrics", str(tmp_path / "metrics"))
    yield tmp_path / "metrics"
    spark.conf.unset("spark.eddyline.metrics")
    spark.conf.unset("spark.eddyline.cachedUnits")


def joined(spark, folder, r, s, on, *, files=4, **options):
    for name, rows in (("r", r), ("s", s)):
        rows.write(folder / name, files)
    sides = (stream(spark, folder / name) for name in "rs")
    return stream_join(
        *sides, on, window="time:9s", time="t", select="r.n AS r, s.n AS s", **options
    )


def test_workers_count_what_becomes_of_units(spark, tmp_path, metrics):
    """A unit is new once. Which worker has it next is for Spark to say, but two take no turns."""
    r, s = Rows.random(1, 200), Rows.random(2, 200)
    near = joined(spark, tmp_path, r, s, "abs(r.x - s.x) <= 2", files=12)
    assert finished(near, tmp_path / "out") == brute(r, s, band(r, s, 2), seconds(9, 9))
    counts = counted(metrics)
    assert counts["new"] == 1
    assert counts["hit"] >= 1
    assert counts["hit"] + counts["lost"] + counts["stale"] >= 11


def test_units_that_a_worker_had_no_room_for_are_loaded_again(spark, tmp_path, metrics):
    """Each of four batches shows rows to all units, and a worker keeps the last one only."""
    r, s = Rows.random(1, 200), Rows.random(2, 200)
    spark.conf.set("spark.eddyline.cachedUnits", "1")
    equal = joined(spark, tmp_path, r, s, "r.x = s.x", units=6)
    matches = r.x[:, None] == s.x[None, :]
    assert finished(equal, tmp_path / "out") == brute(r, s, matches, seconds(9, 9))
    counts = counted(metrics)
    assert counts["new"] == 6
    assert counts["evicted"] >= 1
    assert counts["lost"] >= 1
    assert counts["stale"] == 0


def test_rows_that_a_device_loses_are_counted(spark, tmp_path, metrics):
    r, s = Rows.random(1, 20), Rows.random(2, 20)
    device = "sim:splitjoin?cores=2&window=64&broken=2"
    near = joined(spark, tmp_path, r, s, "abs(r.x - s.x) <= 2", device=device)
    whole = brute(r, s, band(r, s, 2), seconds(9, 9))
    assert set(finished(near, tmp_path / "out")) < set(whole)
    assert counted(metrics)["lost_rows"] > 0


@pytest.mark.slow
def test_a_unit_that_is_ahead_of_the_state_is_thrown_away(spark, tmp_path, metrics):
    """Every batch fails when all of it is joined, and is done again from the state before it."""
    r, s = Rows.random(1, 200), Rows.random(2, 200)
    equal = joined(spark, tmp_path, r, s, "r.x = s.x", units=6)
    batches: dict[int, list[tuple]] = {}

    def keep(batch, number):
        known = number in batches
        batches[number] = [tuple(row) for row in batch.collect()]
        if not known:
            raise RuntimeError("this batch was to fail")

    writer = equal.writeStream.foreachBatch(keep).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "state"))
    failures = 0
    while not ended(writer.start()):
        failures += 1
    assert failures == len(batches) >= 4
    matches = r.x[:, None] == s.x[None, :]
    assert sorted(pair for each in batches.values() for pair in each) == brute(
        r, s, matches, seconds(9, 9)
    )
    assert counted(metrics)["stale"] >= 1


def ended(query) -> bool:
    """Wait for a query; say whether it has come to its end, or a batch has failed that was to."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if "was to fail" not in str(error):
            raise
        return False
    return True
