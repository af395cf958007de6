"""Streams joined on Spark: batches in any order, restarts, watermarks, other joins on top."""

import json

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

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
)

IDS = "r.n AS r, s.n AS s"
LATE = BEGIN + 4_100_000  # when no row in time comes
R = Rows.random(1, 300, disorder=2 * 10**6)
S = Rows.random(2, 200, disorder=2 * 10**6)


@pytest.fixture
def folders(tmp_path):
    R.write(tmp_path / "r", 3)
    S.write(tmp_path / "s", 2)
    return tmp_path


def both(spark, folder, delay="5 seconds"):
    return stream(spark, folder / "r", delay=delay), stream(spark, folder / "s", delay=delay)


def test_spark_itself_cannot_join_streams_on_a_band(spark, folders):
    r, s = both(spark, folders)
    joined = r.alias("r").join(s.alias("s"), F.expr("abs(r.x - s.x) <= 2"))
    with pytest.raises(Exception, match="without equality predicate is not supported"):
        finished(joined.select("r.n"), folders / "out")


@pytest.mark.parametrize("units", [1, pytest.param(2, marks=pytest.mark.slow), (2, 1)])
def test_a_band_over_windows_of_time(spark, folders, units):
    joined = stream_join(
        *both(spark, folders), "abs(r.x - s.x) <= 2", window=("time:2s", "time:9s"), time="t",
        select=IDS, units=units,
    )  # fmt: skip
    assert joined.isStreaming
    assert finished(joined, folders / "out") == brute(R, S, band(R, S, 2), seconds(2, 9))


def test_a_query_goes_on_where_it_was(spark, tmp_path):
    """What is stored comes back from the state, in another process's memory."""
    half = len(R.n) // 2
    expected = brute(R, S, band(R, S, 1), seconds(20, 20))
    for part, first in ((slice(half), 0), (slice(half, None), 2)):
        for name, rows in (("r", R), ("s", S)):
            Rows(rows.n[part], rows.t[part], rows.x[part]).write(tmp_path / name, 2, first=first)
        joined = stream_join(
            *both(spark, tmp_path), "abs(r.x - s.x) <= 1", window="time:20s", time="t", select=IDS
        )
        found = finished(joined, tmp_path / "out")
        assert set(found) <= set(expected)
    assert found == expected


@pytest.mark.parametrize(
    "on", ["abs(r.x - s.x) <= 1", pytest.param("r.x = s.x", marks=pytest.mark.slow)]
)
def test_units_may_change_between_runs(spark, tmp_path, on):
    """More units, then fewer: rows stay where they are, and are found, or the query is refused."""
    matches = band(R, S, 1) if "abs" in on else R.x[:, None] == S.x[None, :]
    runs = [{"units": 1}, {"units": 3, "draining": [1]}, {"units": 2, "draining": [1, 3]}]
    for number, options in enumerate(runs):
        for name, rows in (("r", R), ("s", S)):
            part = np.array_split(np.arange(len(rows.n)), 3)[number]
            Rows(rows.n[part], rows.t[part], rows.x[part]).write(tmp_path / name, 1, first=number)
        sides = both(spark, tmp_path)
        asked = {"window": "time:40s", "time": "t", "select": IDS}
        if number == 1:
            joined = stream_join(*sides, on, units=3, **asked)
            with pytest.raises(Exception, match=r"over 1 units, .* add draining=\[1\]"):
                finished(joined, tmp_path / "out")
        found = finished(stream_join(*sides, on, **asked, **options), tmp_path / "out")
    assert found == brute(R, S, matches, seconds(40, 40))


def mixed(seed: int) -> Rows:
    """Return rows with NULLs, ties and duplicates, some at the end of the last of four files late.

    Late by the watermark of that batch and by the one of the batch before, which Spark asks.
    """
    rows = Rows.random(seed, 200, span=20 * 10**6)
    rows.t -= rows.t % 200_000
    rows = rows.at(np.repeat(np.arange(200), np.arange(200) % 5 // 4 + 1))
    rows.t[-15::3] = LATE
    return rows


def test_an_equality_gives_what_sparks_own_join_gives(spark, tmp_path):
    sides = [mixed(1), mixed(2)]
    for name, rows in zip("rs", sides, strict=True):
        rows.write(tmp_path / name, 4)
    r, s = both(spark, tmp_path)
    ours = stream_join(r, s, "r.x = s.x", window="time:9s", time="t")
    condition = "r.x = s.x AND s.t >= r.t - INTERVAL 9 SECONDS AND s.t <= r.t + INTERVAL 9 SECONDS"
    theirs = r.alias("r").join(s.alias("s"), F.expr(condition)).toDF(*ours.columns)
    found = finished(ours, tmp_path / "ours")
    assert found == finished(theirs, tmp_path / "theirs")
    numbers = ours.columns.index("r_n"), ours.columns.index("s_n")
    told = [tuple(row[one] for one in numbers) for row in found]
    assert told == by_number(*(rows.at(rows.t != LATE) for rows in sides))
    assert len(set(told)) < len(told) < len(by_number(*sides))


def by_number(r: Rows, s: Rows) -> list[tuple]:
    found = brute(r, s, r.x[:, None] == s.x[None, :], seconds(9, 9))
    return sorted((int(r.n[i]), int(s.n[j])) for i, j in found)


def test_another_device_takes_over_from_one_that_fails(spark, folders):
    """The device is too small for the windows, which it finds out while it joins."""
    options = {"window": "time:9s", "time": "t", "select": IDS}
    small = {"device": "sim:splitjoin?cores=2&window=16", **options}
    with pytest.raises(Exception, match="had to leave while its window still held it"):
        finished(stream_join(*both(spark, folders), "abs(r.x - s.x) <= 2", **small), folders / "x")
    spark.conf.set("spark.eddyline.failover", "cpu")
    try:
        joined = stream_join(*both(spark, folders), "abs(r.x - s.x) <= 2", **small)
    finally:
        spark.conf.unset("spark.eddyline.failover")
    assert finished(joined, folders / "out") == brute(R, S, band(R, S, 2), seconds(9, 9))


def test_late_rows_are_left_out_of_all_results(spark, tmp_path):
    """A row behind the watermark meets nothing, on whichever side its partners are."""
    r = Rows(np.arange(4), BEGIN + np.array([0, 60, 1, 58]) * 10**6, np.ones(4, int))
    s = Rows(np.arange(3), BEGIN + np.array([0, 60, 60]) * 10**6, np.ones(3, int))
    r.write(tmp_path / "r", 4)
    s.write(tmp_path / "s", 3)
    spark.conf.set("spark.eddyline.metrics", str(tmp_path / "metrics"))
    try:
        joined = stream_join(
            *both(spark, tmp_path), "abs(r.x - s.x) <= 0", window="time:5s", time="t", select=IDS,
            units=2,
        )  # fmt: skip
    finally:
        spark.conf.unset("spark.eddyline.metrics")
    # The third row of R comes when the watermark is at 55 seconds.
    assert finished(joined, tmp_path / "out") == [(0, 0), (1, 1), (1, 2), (3, 1), (3, 2)]
    told = [json.loads(name.read_text()) for name in (tmp_path / "metrics").glob("*.json")]
    assert sum(counts.get("late_rows", 0) for counts in told) == 1  # though both units saw it


def test_windows_of_rows_wait_for_the_watermark(spark, folders):
    joined = stream_join(
        *both(spark, folders), "abs(r.x - s.x) <= 2", window="rows:20", time="t", select=IDS
    )
    tables = [rows.frame(spark) for rows in (R, S)]
    whole = pairs(
        stream_join(*tables, "abs(r.x - s.x) <= 2", window="rows:20", time="t", select=IDS)
    )
    passed = min(R.t.max(), S.t.max()) - 5 * 10**6
    decided = [(r, s) for r, s in whole if max(R.t[r], S.t[s]) <= passed // 1000 * 1000]
    assert finished(joined, folders / "out") == decided
    assert decided


def test_full_history_needs_no_watermark(spark, folders):
    joined = stream_join(
        *both(spark, folders, delay=None), "r.x < s.x AND s.x < r.x + 3", window="unbounded",
        select=IDS, units=2,
    )  # fmt: skip
    matches = (R.x[:, None] < S.x[None, :]) & (S.x[None, :] < R.x[:, None] + 3)
    assert finished(joined, folders / "out") == brute(R, S, matches, (2**62, 2**62))


def test_a_stream_of_which_no_column_is_needed(spark, folders):
    joined = stream_join(
        *both(spark, folders, delay=None), "r.x > 48", window="unbounded", select="r.n AS r"
    )
    wanted = [(int(n),) for n in R.n[R.x > 48] for _ in S.n]
    assert finished(joined, folders / "out") == sorted(wanted)


def test_devices_that_cannot_join_are_told_when_the_query_is_built(spark, folders):
    """One that stores all that it is shown, beside a table; and one that is to take over."""
    sides = both(spark, folders)
    with pytest.raises(AnalysisException, match="DEVICE"):
        stream_join(sides[0], S.frame(spark), "r.x = s.x", device="reference")
    spark.conf.set("spark.eddyline.failover", "cqu")
    try:
        with pytest.raises(AnalysisException, match="DEVICE.*no device called 'cqu'"):
            stream_join(*sides, "abs(r.x - s.x) <= 2", window="time:9s", time="t")
    finally:
        spark.conf.unset("spark.eddyline.failover")


@pytest.mark.parametrize("side", ["r", "s"])
def test_a_stream_and_a_table(spark, folders, side):
    r, s = both(spark, folders, delay=None)
    sides = (r, S.frame(spark)) if side == "r" else (R.frame(spark), s)
    joined = stream_join(*sides, "abs(r.x - s.x) <= 1", select=IDS)
    assert finished(joined, folders / "out") == brute(R, S, band(R, S, 1), (2**62, 2**62))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"window": "time:1s", "time": "t"}, "meets all of a table.*leave out window and time"),
        ({"window": ("rows:9", "unbounded")}, "leave out window and"),
        ({"time": "t", "select": "r.n, result_time"}, "leave out time and"),
        ({"lateness": "5s"}, "leave out lateness and"),
        ({"select": "r.n, result_time"}, "have no result_time: select the time column"),
    ],
)
def test_a_stream_and_a_table_have_no_windows(spark, folders, options, says):
    r, _ = both(spark, folders)
    with pytest.raises(AnalysisException, match=f"EDDYLINE.STATIC_TIME.*{says}"):
        stream_join(r, S.frame(spark), "r.x = s.x", **options)


def test_a_table_that_is_too_large_to_be_sent(spark, folders):
    r, _ = both(spark, folders)
    spark.conf.set("spark.eddyline.staticBytes", "1000")
    try:
        with pytest.raises(AnalysisException, match="EDDYLINE.STATIC_SIZE.*more than the 1000"):
            stream_join(r, S.frame(spark), "r.x = s.x", select=IDS)
        spark.conf.set("spark.eddyline.staticBytes", "100000")
        assert stream_join(r, S.frame(spark), "r.x = s.x", select=IDS).columns == ["r", "s"]
    finally:
        spark.conf.unset("spark.eddyline.staticBytes")


@pytest.mark.parametrize("side", ["r", "s"])
def test_what_a_stream_and_a_table_give_has_the_watermark_of_the_stream(spark, folders, side):
    """So it can be joined with a stream, and aggregated by time."""
    r, s = both(spark, folders)
    select = f"{side}.t, r.x, r.n AS rn, s.n AS sn"
    sides = (r, S.frame(spark)) if side == "r" else (R.frame(spark), s)
    first = stream_join(*sides, "r.x = s.x", select=select)
    mine, third = (R, S) if side == "r" else (S, R)
    again = stream_join(
        first, s if side == "r" else r, "r.x = s.x", window="time:2s", time="t",
        select="rn, sn, n, result_time",
    )  # fmt: skip
    counted = again.groupBy(F.window("result_time", "10 seconds")).count()
    told = counted.select(F.unix_micros("window.start").alias("w"), "count")
    once = brute(R, S, R.x[:, None] == S.x[None, :], (2**62, 2**62))
    closed = min(R.t.max(), S.t.max()) - 5 * 10**6
    expected: dict[int, int] = {}
    for pair in once:
        t, x = (one[pair[side == "s"]] for one in (mine.t, mine.x))
        for late in np.maximum(t, third.t[(third.x == x) & (abs(third.t - t) <= 2 * 10**6)]):
            begin = int(late) // 10**7 * 10**7
            expected[begin] = expected.get(begin, 0) + 1
    wanted = sorted(one for one in expected.items() if one[0] + 10**7 <= closed)
    assert finished(told, folders / "out") == wanted
    assert wanted


@pytest.mark.parametrize("side", ["r", "s"])
def test_results_can_be_joined_again(spark, folders, side):
    third = Rows.random(7, 150)
    third.write(folders / "u", 2)
    r, s = both(spark, folders)
    first = stream_join(
        r, s, "abs(r.x - s.x) <= 1", window="time:4s", time="t",
        select="r.n AS rn, s.n AS sn, r.x, result_time",
    )  # fmt: skip
    other = stream(spark, folders / "u")
    sides, times = (first, other), ("result_time", "t")
    if side == "s":
        sides, times = sides[::-1], times[::-1]
    joined = stream_join(
        *sides, "r.x = s.x", window="time:4s", time=times, select="rn, sn, n AS un"
    )
    expected = []
    for i, j in brute(R, S, band(R, S, 1), seconds(4, 4)):
        late = max(R.t[i], S.t[j])
        near = np.abs(third.t - late) <= 4 * 10**6
        expected += [(i, j, k) for k in np.flatnonzero(near & (third.x == R.x[i])).tolist()]
    assert finished(joined, folders / "out") == sorted(expected)


def test_results_can_be_aggregated_by_time(spark, folders):
    joined = stream_join(
        *both(spark, folders), "abs(r.x - s.x) <= 1", window="time:4s", time="t",
        select="r.n, result_time",
    )  # fmt: skip
    counted = joined.groupBy(F.window("result_time", "10 seconds")).count()
    rows = finished(
        counted.select(F.unix_micros("window.start").alias("w"), "count"), folders / "a"
    )
    expected: dict[int, int] = {}
    for i, j in brute(R, S, band(R, S, 1), seconds(4, 4)):
        begin = int(max(R.t[i], S.t[j])) // 10**7 * 10**7
        expected[begin] = expected.get(begin, 0) + 1
    closed = min(R.t.max(), S.t.max()) - 5 * 10**6
    assert rows == sorted(pair for pair in expected.items() if pair[0] + 10**7 <= closed)
    assert rows


def test_lateness_gives_a_watermark(spark, folders):
    r, s = both(spark, folders, delay=None)
    joined = stream_join(
        r, s, "abs(r.x - s.x) <= 2", window="time:1s", time="t", select=IDS, lateness="5s"
    )
    assert finished(joined, folders / "out") == brute(R, S, band(R, S, 2), seconds(1, 1))


@pytest.mark.parametrize(
    ("options", "delay", "says"),
    [
        (
            {"window": "time:1s", "time": "t"},
            None,
            "NO_WATERMARK.*stream r has no watermark on 't'",
        ),
        ({}, None, "NO_WINDOW.*two streams need a window"),
        ({"window": "rows:10"}, None, "NO_TIME.*need a time column"),
        ({"window": "time:1s", "time": "n"}, None, "TIME_TYPE.*r.n is bigint"),
        ({"window": "time:1s", "time": "t", "lateness": 5}, None, "LATENESS.*has no unit"),
    ],
)
def test_what_a_stream_lacks_is_said_when_the_query_is_built(spark, folders, options, delay, says):
    if options.get("time") == "n":
        options = {**options, "window": "time:1"}
    with pytest.raises(AnalysisException, match=says):
        stream_join(*both(spark, folders, delay=delay), "r.x < s.x", **options)
