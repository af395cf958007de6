"""Tables joined on Spark against brute force and against the same query without Spark."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import eddyline
from eddyline.errors import QueryError
from eddyline.spark import stream_join
from tests.spark.streams import Rows, band, brute, counted, pairs, seconds

IDS = "r.n AS r, s.n AS s"
R, S = Rows.random(1, 400, disorder=10**6), Rows.random(2, 300, disorder=10**6)


@pytest.mark.parametrize("units", [1, 3, (2, 3)])
def test_a_band_over_windows_of_time(spark, units):
    joined = stream_join(
        R.frame(spark), S.frame(spark), "abs(r.x - s.x) <= 2", window=("time:2s", "time:500ms"),
        time="t", select=IDS, units=units,
    )  # fmt: skip
    assert pairs(joined) == brute(R, S, band(R, S, 2), seconds(2, 0.5))


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("r.x = s.x", {"window": "time:9s", "time": "t"}),
        ("r.x = s.x", {"window": "time:9s", "time": "t", "units": 6, "subgroups": 2}),
        ("r.name = s.name AND r.x <> s.x", {"window": "time:1s", "time": "t"}),
        ("r.x < s.x AND r.name = 'name 3'", {"window": "unbounded", "units": 2}),
        ("abs(r.x - s.x) <= 1", {"window": "rows:40", "time": "t"}),
        ("r.x > s.x", {"window": ("rows:7", "time:1s"), "time": "t"}),
    ],
)
def test_spark_changes_nothing(spark, on, options):
    joined = stream_join(R.frame(spark), S.frame(spark), on, select=IDS, **options)
    here = {key: options[key] for key in options if key in ("window", "time")}
    tables = [rows.table().sort_by("t") for rows in (R, S)]
    alone = eddyline.join(*tables, on, select=IDS, **here).read_all()
    assert pairs(joined) == sorted(zip(*alone.to_pydict().values(), strict=True))


@pytest.mark.parametrize("empty", ["r", "s", "both"])
def test_empty_tables(spark, empty):
    nothing = Rows.random(3, 0)
    r = nothing if empty in ("r", "both") else R
    s = nothing if empty in ("s", "both") else S
    joined = stream_join(r.frame(spark), s.frame(spark), "r.x < s.x", window="time:1s", time="t")
    assert joined.count() == 0


def test_a_gateware_simulator_may_be_the_device(spark):
    r, s = Rows.random(5, 60), Rows.random(6, 60)
    joined = stream_join(
        r.frame(spark), s.frame(spark), "abs(r.x - s.x) <= 2", window="time:5s", time="t",
        select=IDS, device="sim:splitjoin?cores=2&window=64",
    )  # fmt: skip
    assert pairs(joined) == brute(r, s, band(r, s, 2), seconds(5, 5))


def test_another_device_takes_over_from_one_that_fails(spark, tmp_path):
    """The device is too small for the windows, which it finds out when it has found pairs."""
    tables, on = [R.frame(spark), S.frame(spark)], "abs(r.x - s.x) <= 2"
    small = {"device": "sim:splitjoin?cores=2&window=16", "window": "time:9s", "time": "t"}
    settings = {"failover": "cpu", "metrics": str(tmp_path)}
    with pytest.raises(Exception, match="had to leave while its window still held it"):
        stream_join(*tables, on, select=IDS, **small).collect()
    for name, value in settings.items():
        spark.conf.set(f"spark.eddyline.{name}", value)
    try:
        joined = stream_join(*tables, on, select=IDS, **small)
    finally:
        for name in settings:
            spark.conf.unset(f"spark.eddyline.{name}")
    assert pairs(joined) == brute(R, S, band(R, S, 2), seconds(9, 9))
    assert counted(tmp_path)["failover"] == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on": "abs(r.y - s.x) <= 1"}, "EDDYLINE.QUERY.*no column 'r.y'"),
        ({"on": "r.x LIKE 'a%'"}, "EDDYLINE.QUERY"),
        ({"on": "r.x < s.x", "order": "inner"}, "EDDYLINE.ORDER.*have no order"),
        ({"on": "r.x < s.x", "units": 4, "subgroups": 2}, "EDDYLINE.UNITS.*need an equality"),
        ({"on": "r.x = s.x", "units": 4, "subgroups": 3}, "cannot be cut into 3"),
        (
            {"on": "r.x < s.x", "window": "rows:9", "units": 2, "time": "t"},
            "counted over the whole stream",
        ),
        ({"on": "r.x < s.x", "units": (2, 2, 2)}, "neither a number nor rows and columns"),
        ({"on": "r.x = s.x", "units": (2, 2), "subgroups": 2}, "no subgroups"),
        ({"on": "r.x < s.x", "device": "gpu"}, "EDDYLINE.DEVICE.*no device called 'gpu'"),
        ({"on": "r.x < s.x", "window": "time:9s", "time": "when"}, "no time column 'when'"),
        ({"on": "r.x < s.x", "window": "rows:9"}, "EDDYLINE.NO_TIME.*need a time column"),
        ({"on": "r.x < s.x", "units": 0}, "units=0 is not a number from 1 up"),
    ],
)
def test_what_cannot_be_done_is_said_when_the_query_is_built(spark, options, says):
    with pytest.raises(AnalysisException, match=says) as caught:
        stream_join(R.frame(spark), S.frame(spark), **options)
    assert isinstance(caught.value, QueryError)


def test_a_side_that_is_no_frame(spark):
    with pytest.raises(AnalysisException, match="side s is a list"):
        stream_join(R.frame(spark), [], "r.x = s.x")


def test_settings_come_from_the_session(spark):
    spark.conf.set("spark.eddyline.device", "nothing")
    try:
        with pytest.raises(AnalysisException, match="no device called 'nothing'"):
            stream_join(R.frame(spark), S.frame(spark), "r.x = s.x", window="unbounded")
        spark.conf.set("spark.eddyline.units", "many")
        with pytest.raises(AnalysisException, match="spark.eddyline.units is 'many'"):
            stream_join(R.frame(spark), S.frame(spark), "r.x = s.x", window="unbounded")
    finally:
        spark.conf.unset("spark.eddyline.device")
        spark.conf.unset("spark.eddyline.units")


def test_times_at_the_ends_of_what_arrow_knows(spark):
    far = pa.array([-(2**62), 0, 2**62], pa.timestamp("us", "UTC"))
    table = pa.table({"n": pa.array([0, 1, 2], pa.int64()), "t": far})
    frame = spark.createDataFrame(table, "n long, t timestamp")
    joined = stream_join(frame, frame, "r.n = s.n", window="time:1s", time="t", select=IDS)
    assert pairs(joined) == [(n, n) for n in np.arange(3).tolist()]
