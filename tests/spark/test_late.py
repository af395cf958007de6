"""Late rows as marked rows of the result: each once, and none of them in a pair."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from eddyline.spark import stream_join
from tests.spark.streams import BEGIN, Rows, finished, pairs, stream

# The third row of R comes when the watermark is at 55 seconds, and so does the last of S.
R = Rows(np.arange(5), BEGIN + np.array([0, 60, 1, 58, 2]) * 10**6, np.array([1, 1, 1, 1, 0]))
S = Rows(np.arange(4), BEGIN + np.array([0, 60, 60, 3]) * 10**6, np.ones(4, int))
BAND = "abs(r.x - s.x) <= 0"


@pytest.fixture
def sides(spark, tmp_path):
    R.write(tmp_path / "r", 3)
    S.write(tmp_path / "s", 2)
    return [stream(spark, tmp_path / name) for name in "rs"]


@pytest.mark.parametrize(
    ("on", "options"),
    [
        pytest.param(BAND, {"units": 2}, marks=pytest.mark.slow),
        (BAND, {"units": (2, 2)}),
        # NULLs match nothing, and are late all the same.
        ("r.x = s.x", {"units": 3, "draining": [2]}),
    ],
)
def test_late_rows_are_marked(tmp_path, sides, on, options):
    joined = stream_join(
        *sides, on, window="time:5s", time="t", late="late", **options,
        select="r.n AS rn, s.n AS sn, s.name, result_time",
    )  # fmt: skip
    assert [one.nullable for one in joined.schema] == [True] * 5
    told = joined.select(
        "rn", "sn", "name", "late", (F.unix_micros("result_time") - BEGIN).alias("t")
    )
    found = [(*row[:4], row[4] // 10**6) for row in finished_with_nulls(told, tmp_path / "out")]
    found_pairs = sorted(row[:2] for row in found if row[3] is None)
    assert found_pairs == [(0, 0), (1, 1), (1, 2), (3, 1), (3, 2)]
    assert sorted(row for row in found if row[3] == "r") == [
        (2, None, None, "r", 1), (4, None, None, "r", 2),
    ]  # fmt: skip
    assert [row for row in found if row[3] == "s"] == [(None, 3, "name 1", "s", 3)]
    assert len(found) == 8


def test_rows_without_a_time_are_late(spark, tmp_path, sides):
    """Else a query would end with an error, and so again whenever it is started."""
    table = pq.read_table(tmp_path / "r" / "000.parquet")
    times = pa.array([None] * len(table), table["t"].type)
    pq.write_table(table.set_column(1, "t", times), tmp_path / "r" / "000.parquet")
    joined = stream_join(
        *sides,
        BAND,
        window="time:5s",
        time="t",
        late="late",
        select="r.n AS rn, s.n AS sn, result_time",
    )
    found = finished_with_nulls(joined, tmp_path / "out")
    untimed = [(0, None, None, "r"), (1, None, None, "r")]
    assert sorted(row for row in found if row[2] is None) == untimed
    assert sorted(row[:2] for row in found if row[3] is None) == [(2, 0), (3, 1), (3, 2)]


def finished_with_nulls(frame, out):
    writer = frame.writeStream.format("parquet").option("path", str(out / "rows"))
    query = writer.option("checkpointLocation", str(out / "state")).trigger(availableNow=True)
    query.start().awaitTermination()
    return [tuple(row) for row in frame.sparkSession.read.parquet(str(out / "rows")).collect()]


def test_late_rows_of_windows_of_rows(tmp_path, sides):
    joined = stream_join(
        *sides, BAND, window="rows:2", time="t", select="r.n AS rn, s.n AS sn", late="too_late"
    )
    late = joined.filter("too_late IS NOT NULL").select(F.coalesce("rn", "sn"), "too_late")
    assert finished(late, tmp_path / "out") == [(2, "r"), (3, "s"), (4, "r")]


def test_tables_have_no_late_rows(spark):
    joined = stream_join(
        R.frame(spark), S.frame(spark), BAND, window="time:5s", time="t", select="r.n", late="late"
    )
    assert {row[1] for row in pairs(joined)} == {None}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"late": True}, "EDDYLINE.LATE.*late=True names no column"),
        ({"late": "RN"}, "a result column is called 'RN' already"),
        ({"late": "late", "window": "unbounded", "time": None}, "no row is late"),
    ],
)
def test_what_late_needs_is_said_when_the_query_is_built(sides, options, says):
    asked = {"window": "time:5s", "time": "t", "select": "r.n AS rn", **options}
    with pytest.raises(AnalysisException, match=says):
        stream_join(*sides, BAND, **asked)


def test_a_stream_that_meets_a_table_has_no_late_rows(spark, sides):
    with pytest.raises(AnalysisException, match="no row is late"):
        stream_join(sides[0], S.frame(spark), BAND, select="r.n", late="late")
