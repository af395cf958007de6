"""Units that follow the load: what is decided, what is kept for the next start, and the pairs."""

import json
import logging
import time
from types import SimpleNamespace

import pytest
from pyspark.errors import AnalysisException

from eddyline.spark import Scaling, stream_join
from tests.spark.streams import Rows, band, brute, finished, seconds, stream

BAND = "abs(r.x - s.x) <= 2"


def told(scaling: Scaling, *loads: int | None) -> None:
    """Let a listener hear of a batch."""
    progress = SimpleNamespace(observedMetrics={scaling.name: loads})
    scaling.onQueryProgress(SimpleNamespace(progress=progress))


def test_three_batches_over_the_threshold_are_written_down(tmp_path):
    file = tmp_path / "units.json"
    scaling = Scaling(str(file), units=2, capacity=100)
    told(scaling, 90, 90)
    told(scaling, None, 95)  # the first unit had nothing to do, and still has 90
    assert not file.exists()
    told(scaling, 90, None)
    assert json.loads(file.read_text()) == {"units": 4, "draining": [2]}
    assert scaling.units == 2  # until the query starts again
    again = Scaling(str(file), units=2, capacity=100)
    assert (again.units, again.draining) == (4, [2])
    for _ in range(3):
        told(again, 10, 10, 10, 10)
    assert json.loads(file.read_text()) == {"units": 1, "draining": [2, 4]}
    again.forget()
    assert json.loads(file.read_text()) == {"units": 4, "draining": []}


def test_a_change_may_be_proposed_only(tmp_path):
    scaling = Scaling(str(tmp_path / "units.json"), units=2, capacity=100, apply=False, agreeing=1)
    told(scaling, 90, 90)
    assert scaling.proposed == 3
    assert not (tmp_path / "units.json").exists()


def test_other_queries_are_not_listened_to(tmp_path):
    scaling = Scaling(str(tmp_path / "units.json"), units=1, capacity=1, agreeing=1)
    progress = SimpleNamespace(observedMetrics={"another": (5,)})
    scaling.onQueryProgress(SimpleNamespace(progress=progress))
    assert scaling.proposed is None


def test_full_history_never_loses_a_unit(tmp_path, caplog):
    scaling = Scaling(str(tmp_path / "units.json"), units=4, capacity=100, agreeing=1)
    scaling.keeps_all = True
    with caplog.at_level(logging.WARNING):
        told(scaling, 1, 1, 1, 1)
    assert "full history never leaves a unit" in caplog.text
    assert scaling.proposed is None
    told(scaling, 99, 99, 99, 99)
    assert scaling.proposed == 7  # more of them is no problem: what is stored stays where it is


def test_a_file_that_says_nothing(tmp_path):
    (tmp_path / "units.json").write_text('{"units": "many"}')
    with pytest.raises(AnalysisException, match="EDDYLINE.SCALING.*units.json does not say"):
        Scaling(str(tmp_path / "units.json"), units=1, capacity=1)


@pytest.mark.parametrize("window", ["time:40s", pytest.param("unbounded", marks=pytest.mark.slow)])
def test_a_query_grows_by_itself(spark, tmp_path, window):
    """Every batch is over the threshold, so the second run has more units. Pairs are the same."""
    r, s = Rows.random(1, 200), Rows.random(2, 200)
    for number, part in enumerate((slice(100), slice(100, None))):
        for name, rows in (("r", r), ("s", s)):
            some = Rows(rows.n[part], rows.t[part], rows.x[part])
            some.write(tmp_path / name, 2, first=2 * number)
        scaling = Scaling(str(tmp_path / "units.json"), units=1, capacity=2500, agreeing=2)
        spark.streams.addListener(scaling)
        try:
            joined = stream_join(
                *(stream(spark, tmp_path / name) for name in "rs"), BAND, window=window, time="t",
                select="r.n AS r, s.n AS s", units=scaling,
            )  # fmt: skip
            found = finished(joined, tmp_path / "out")
            if number == 0:
                for _ in range(600):  # listeners hear of a batch after it has ended
                    if scaling.proposed:
                        break
                    time.sleep(0.1)
        finally:
            spark.streams.removeListener(scaling)
    assert scaling.units > 1
    assert scaling.draining[0] == 1
    span = 40 if window != "unbounded" else 10**6
    assert found == brute(r, s, band(r, s, 2), seconds(span, span))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"window": "rows:5"}, "EDDYLINE.SCALING.*windows of rows have one unit"),
        ({"subgroups": 2}, "leave them out"),
        ({"draining": [2]}, "leave them out"),
    ],
)
def test_joins_whose_units_cannot_change(spark, tmp_path, options, says):
    Rows.random(1, 2).write(tmp_path / "r", 1)
    sides = [stream(spark, tmp_path / "r")] * 2
    scaling = Scaling(str(tmp_path / "units.json"), units=1, capacity=1)
    asked = {"window": "time:5s", "time": "t", "units": scaling, **options}
    with pytest.raises(AnalysisException, match=says):
        stream_join(*sides, BAND, **asked)


def test_tables_are_not_scaled(spark, tmp_path):
    table = Rows.random(1, 2).frame(spark)
    scaling = Scaling(str(tmp_path / "units.json"), units=1, capacity=1)
    with pytest.raises(AnalysisException, match="only the units of two streams"):
        stream_join(table, table, BAND, units=scaling)
