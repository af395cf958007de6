"""Arguments that make no sense are told when the query is built, in Spark's style."""

import pytest
from pyspark.errors import AnalysisException

from eddyline.spark import stream_join


@pytest.fixture
def table(spark):
    return spark.createDataFrame([(1, 2)], "t long, x long")


@pytest.mark.parametrize(
    ("options", "condition", "says"),
    [
        ({"on": None}, "QUERY", "the predicate None is no text"),
        ({"select": 5}, "QUERY", "the selection 5 is no text"),
        ({"order": 5}, "QUERY", "5 is not an order"),
        ({"time": 5}, "QUERY", "time 5 is neither a column nor a pair"),
        ({"time": 5, "lateness": "1s"}, "QUERY", "time 5 is neither a column nor a pair"),
        ({"lateness": "soon"}, "LATENESS", "lateness 'soon' is not a duration"),
        ({"device": 5}, "DEVICE", "device=5 is no name"),
        ({"draining": 5}, "UNITS", "draining=5 is no list of numbers of units"),
        ({"draining": "4"}, "UNITS", "draining='4' is no list of numbers of units"),
        ({"draining": [None]}, "UNITS", "units=None is not a number"),
        ({"draining": [(1, 2, 3)]}, "UNITS", r"draining=\(1, 2, 3\) is neither units"),
        ({"late": ""}, "LATE", "late='' names no column"),
        ({"distinct": ""}, "DISTINCT", "'' is not a window"),
    ],
)
def test_arguments_of_another_kind(table, options, condition, says):
    asked = {"on": "r.x = s.x", **options}
    with pytest.raises(AnalysisException, match=rf"^\[EDDYLINE.{condition}\] {says}") as told:
        stream_join(table, table, **asked)
    assert told.value.getCondition() == f"EDDYLINE.{condition}"
    assert told.value.getSqlState() == "42000"


def test_nothing_is_asked_for_by_none_and_false(table):
    joined = stream_join(table, table, "r.x = s.x", late=None, distinct=False, draining=())
    assert joined.columns == ["r_t", "r_x", "s_t", "s_x"]
