"""Results without duplicates against brute force: all pairs, in order of time, one by one."""

from collections.abc import Iterator

import numpy as np
import pytest
from pyspark.errors import AnalysisException

from eddyline.spark import stream_join
from tests.spark.streams import (
    BEGIN,
    Rows,
    band,
    brute,
    finished,
    pairs,
    seconds,
    stream,
    unlike_before,
)

R, S = Rows.random(1, 120, disorder=10**6), Rows.random(2, 100, disorder=10**6)
BAND = "abs(r.x - s.x) <= 3"
VALUES = "r.name, s.name AS other, result_time"


def expected(window: int, span: int, *, until: float = np.inf) -> Iterator[tuple]:
    found = brute(R, S, band(R, S, 3), seconds(window, window))
    return unlike_before(R, S, found, span, until=until)


@pytest.fixture
def sides(spark, tmp_path):
    R.write(tmp_path / "r", 3)
    S.write(tmp_path / "s", 2)
    return [stream(spark, tmp_path / name) for name in "rs"]


def in_micros(frame):
    return frame.selectExpr("name", "other", "unix_micros(result_time) AS t")


@pytest.mark.parametrize(
    ("distinct", "span"), [(True, 9 * 10**6), ("time:2s", 2 * 10**6), ("unbounded", 2**62)]
)
def test_tables(spark, distinct, span):
    joined = stream_join(
        R.frame(spark), S.frame(spark), BAND, window=("time:9s", "time:9s"), time="t",
        select=VALUES, units=2, distinct=distinct,
    )  # fmt: skip
    assert joined.columns == ["name", "other", "result_time"]
    assert pairs(in_micros(joined)) == sorted(expected(9, span))


def test_streams_wait_for_the_watermark(sides, tmp_path):
    joined = stream_join(
        *sides, BAND, window="time:9s", time="t", select=VALUES, units=2, distinct="time:7s",
        late="late",
    )  # fmt: skip
    passed = (min(R.t.max(), S.t.max()) - 5 * 10**6) // 1000 * 1000
    wanted = sorted(expected(9, 7 * 10**6, until=passed))
    assert finished(in_micros(joined), tmp_path / "out") == wanted
    assert len(wanted) < len(brute(R, S, band(R, S, 3), seconds(9, 9))) // 2


def test_full_history_without_times_though_units_change(spark, tmp_path):
    """Results of the second run equal those of the first, which other units have found."""
    wanted = {row[:2] for row in expected(10**6, 2**62)}
    for first, units in ((0, 1), (3, 3)):
        R.write(tmp_path / "r", 1, first=first)
        joined = stream_join(
            stream(spark, tmp_path / "r"), S.frame(spark), BAND, units=units, distinct=True,
            select="r.name, s.name AS other",
        )  # fmt: skip
        assert finished(joined, tmp_path / "out") == sorted(wanted)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"distinct": 5}, "EDDYLINE.DISTINCT.*distinct=5 is neither True nor a window"),
        ({"distinct": "rows:5"}, "a window of time, not of rows"),
        ({"distinct": True, "window": "rows:5"}, "a window of time, not of rows"),
        ({"distinct": "time:5"}, "has no unit"),
        ({"distinct": True, "select": "result_time"}, "needs a result column"),
        ({"distinct": "time:5s", "window": "unbounded", "time": None}, "needs a time column"),
        ({"distinct": "time:5s", "window": "unbounded"}, "without watermarks it is not known when"),
    ],
)
def test_what_distinct_needs_is_said_when_the_query_is_built(spark, tmp_path, sides, options, says):
    if "without watermarks" in says:
        sides = [stream(spark, tmp_path / name, delay=None) for name in "rs"]
    asked = {"window": "time:5s", "time": "t", "select": "r.n", **options}
    with pytest.raises(AnalysisException, match=says):
        stream_join(*sides, BAND, **asked)


def test_results_that_have_waited_would_be_late_in_another_join(spark, sides):
    first = stream_join(
        *sides, BAND, window="time:1s", time="t", select="r.x, result_time", distinct=True
    )
    with pytest.raises(AnalysisException, match="LATE_RESULTS.*stream r is a join with"):
        stream_join(first, sides[1], BAND, window="time:1s", time=("result_time", "t"))
    with pytest.raises(AnalysisException, match="LATE_RESULTS.*stream r is a join with"):
        stream_join(first, sides[1], BAND, window="unbounded", time=("result_time", "t"))
    beside = stream_join(first, S.frame(spark), BAND, select="r.x, r.result_time AS t")
    with pytest.raises(AnalysisException, match="LATE_RESULTS.*stream r is a join with"):
        stream_join(beside, sides[1], BAND, window="time:1s", time="t")


def test_without_watermarks_what_came_first_counts(spark, tmp_path):
    """A result with an earlier time than an equal one that was handed over comes too late."""
    r = Rows(np.arange(3), BEGIN + np.array([100, 90, 80]) * 10**6, np.full(3, 7))
    r.write(tmp_path / "r", 3)
    Rows(np.arange(1), BEGIN + np.zeros(1, int), np.full(1, 7)).write(tmp_path / "s", 1)
    joined = stream_join(
        *(stream(spark, tmp_path / name, delay=None) for name in "rs"), BAND, window="unbounded",
        time="t", select="r.name, s.name AS other", distinct=True,
    )  # fmt: skip
    assert finished(joined, tmp_path / "out") == [("name 0", "name 0")]
