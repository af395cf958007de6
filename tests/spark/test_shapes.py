"""Rows of any shape come out as they went in, of tables and of streams."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException

from eddyline.spark import join_with
from tests.spark.streams import Rows, finished, pairs, stream

R_COLUMNS = [
    "n AS id",
    "array(n, 7) AS whole",
    "array(n, NULL) AS holes",
    "map('k', n + 0.5) AS m",
    "named_struct('x', n, 'y', named_struct('z', CAST(NULL AS INT))) AS nested",
    "'Ab' COLLATE UTF8_LCASE AS lcase",
    "array(name COLLATE UNICODE) AS collated",
]
S_COLUMNS = [
    "n AS id",
    "CAST(n + 0.25 AS DECIMAL(9,2)) AS d",
    "X'00FF' AS b",
    "date_add(date'2020-02-28', CAST(n AS INT)) AS day",
    "nullif(n, 1) AS some",
    "make_dt_interval(0, 0, n) AS minutes",
    "CAST(make_dt_interval(0, 0, n) AS INTERVAL MINUTE) AS minute",
]
NAMES = ["r_id", "whole", "holes", "m", "nested", "lcase", "collated"]
NAMES += ["s_id", "d", "b", "day", "some", "minutes", "minute"]
ROWS = Rows.random(1, 3)


def expected(n: int) -> tuple:
    day = [date(2020, 2, 28), date(2020, 2, 29), date(2020, 3, 1)][n]
    left = (n, [n, 7], [n, None], {"k": Decimal(f"{n}.5")}, (n, (None,)))
    left += ("Ab", [ROWS.table()["name"][n].as_py()])
    right = (n, Decimal(f"{n}.25"), b"\x00\xff", day, None if n == 1 else n)
    return (*left, *right, timedelta(minutes=n), timedelta(minutes=n))


@pytest.mark.parametrize("kind", ["tables", "streams"])
def test_rows_keep_their_shape(spark, tmp_path, kind):
    ROWS.write(tmp_path / "rows", 1)
    frame = ROWS.frame(spark)
    if kind == "streams":
        frame = stream(spark, tmp_path / "rows", delay=None)
    r, s = frame.selectExpr(*R_COLUMNS), frame.selectExpr(*S_COLUMNS)
    joined = r.transform(join_with(s, "r.id = s.id", window="unbounded"))
    assert joined.columns == NAMES
    wanted = [*r.schema.fields, *s.schema.fields]
    assert {one.nullable for one in wanted} == {True, False}
    assert [(one.dataType, one.nullable) for one in joined.schema] == [
        (one.dataType, one.nullable) for one in wanted
    ]
    joined = joined.filter("lcase = 'aB'")  # of its collation
    found = pairs(joined) if kind == "tables" else finished(joined, tmp_path / "out")
    assert found == [expected(n) for n in range(3)]


NOT_COMPARED = "has the collation UTF8_LCASE, and strings are compared by bytes here"


@pytest.mark.parametrize(
    ("column", "options", "says"),
    [
        ("'A' COLLATE UTF8_LCASE", {}, f"COLLATION] column r.c {NOT_COMPARED}"),
        ("'A' COLLATE UTF8_LCASE", {"on": "r.n = s.n AND s.c = 'a'"}, f"column s.c {NOT_COMPARED}"),
        (
            "'A' COLLATE UTF8_LCASE",
            {"on": "r.n = s.n", "select": "r.c", "distinct": True},
            rf"column c {NOT_COMPARED}: select it as collate\(c, 'UTF8_BINARY'\) before",
        ),
        (
            "INTERVAL '1' MONTH",
            {"select": "r.n"},
            "TYPE] column 'c' is interval month, which Arrow",
        ),
        ("array(make_interval(1))", {"on": "r.n = s.n"}, "TYPE] column 'c' is array<interval>"),
    ],
)
def test_types_that_cannot_be_compared_or_carried(spark, column, options, says):
    frame = spark.sql(f"SELECT 1 AS n, {column} AS c")
    with pytest.raises(AnalysisException, match=says):
        frame.transform(join_with(frame, **{"on": "r.c = s.c", **options}))
