"""What a frame does is told by its plan."""

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from eddyline.spark import stream_join
from eddyline.spark.plans import may_wait, waits
from tests.spark.streams import Rows, stream

NEAR = "l.x = r.x AND l.t >= r.t AND l.t <= r.t + INTERVAL 5 SECONDS"


@pytest.fixture
def frame(spark, tmp_path):
    Rows.random(1, 3).write(tmp_path / "r", 1)
    return stream(spark, tmp_path / "r")


def near(frame, how):
    joined = frame.alias("l").join(frame.drop("name").alias("r"), F.expr(NEAR), how)
    return joined.select("l.t", "l.x")


def counted(frame):
    table = frame.sparkSession.range(3).selectExpr("id AS x")
    return table.groupBy("x").count()


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.groupBy("t").count(),
        lambda frame: frame.groupBy(F.window("t", "1 minute").end.alias("t"), "x").count(),
        lambda frame: frame.groupBy(F.session_window("t", "1 minute").end.alias("t")).count(),
        lambda frame: frame.sparkSession.sql("SELECT DISTINCT t, x FROM {f}", f=frame),
        lambda frame: near(frame, "left"),
        lambda frame: near(frame, "full").where("x > 3"),
    ],
)
def test_rows_that_come_when_the_watermark_has_passed_them(frame, change):
    assert waits(change(frame))


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame,
        lambda frame: near(frame, "inner"),
        lambda frame: frame.select("t", "x").distinct(),
        lambda frame: frame.dropDuplicatesWithinWatermark(["x"]),
        lambda frame: frame.join(counted(frame), "x"),
        lambda frame: frame.join(counted(frame), "x", "left"),
    ],
)
def test_rows_that_come_at_once(frame, change):
    assert not waits(change(frame))


@pytest.mark.parametrize("window", ["time:1s", "unbounded"])
def test_an_aggregation_whose_rows_would_all_be_late_is_refused(frame, window):
    minutes = frame.groupBy(F.window("t", "1 minute")).count()
    minutes = minutes.select(F.window_time("window").alias("t"), "count")
    with pytest.raises(AnalysisException, match="LATE_RESULTS.*stream s is an aggregation"):
        stream_join(frame, minutes, "r.x = s.count", window=window, time="t")


class Keeps(StatefulProcessor):
    """May give its rows out at any time: who knows."""

    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timerValues):
        yield from ()

    def close(self):
        pass


GIVEN = ("t timestamp, x int", "append", "EventTime", None, "t")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda groups: groups.transformWithState(Keeps(), *GIVEN), "transformWithState"),
        (lambda groups: groups.transformWithStateInPandas(Keeps(), *GIVEN), "transformWithState"),
        (
            lambda groups: groups.applyInPandasWithState(
                lambda key, rows, state: rows, "t timestamp, x int", "n int", "append", "NoTimeout"
            ),
            "applyInPandasWithState",
        ),
    ],
)
def test_a_stateful_operator_of_the_user_cannot_be_judged(frame, caplog, change, name):
    kept = change(frame.groupBy("x"))
    assert not waits(kept)
    assert may_wait(kept.where("x > 3")) == name
    if name == "transformWithState":  # the others lose the watermark
        stream_join(frame, kept, "r.x = s.x", window="time:1s", time="t")
        assert f"stream s comes from {name}: rows that it keeps until" in caplog.text


def test_our_own_stateful_operators_are_known(frame, caplog):
    query = {"window": "time:1s", "time": "t", "select": "r.x, result_time AS t"}
    first = stream_join(frame, frame, "r.x = s.x", **query)
    distinct = stream_join(frame, counted(frame), "r.x = s.x", select="r.t, r.x", distinct=True)
    for one in (first, distinct):
        stream_join(frame, one, "r.x = s.x", **query)
        assert may_wait(one) is None
    assert not caplog.records
