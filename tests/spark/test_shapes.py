"""Rows of any shape and width come out as they went in, of tables and of streams."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException

from eddyline.spark import join_with, stream_join
from eddyline.spark.schemas import PASSED, WATERMARK
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


def joined_as(kind, spark, folder, r_columns, s_columns):
    """Join rows with themselves by ``id``; return the schema that is wanted, and what came out."""
    ROWS.write(folder / "rows", 1)
    tables = kind == "tables"
    frame = ROWS.frame(spark) if tables else stream(spark, folder / "rows", delay=None)
    r, s = frame.selectExpr(*r_columns), frame.selectExpr(*s_columns)
    joined = r.transform(join_with(s, "r.id = s.id", window="unbounded"))
    wanted = [*r.schema.fields, *s.schema.fields]
    assert {one.nullable for one in wanted} == {True, False}
    assert [(one.dataType, one.nullable) for one in joined.schema] == [
        (one.dataType, one.nullable) for one in wanted
    ]
    if "lcase" in joined.columns:
        joined = joined.filter("lcase = 'aB'")  # of its collation
    return joined.columns, pairs(joined) if tables else finished(joined, folder / "out")


@pytest.mark.parametrize("kind", ["tables", "streams"])
def test_rows_keep_their_shape(spark, tmp_path, kind):
    names, found = joined_as(kind, spark, tmp_path, R_COLUMNS, S_COLUMNS)
    assert names == NAMES
    assert found == [expected(n) for n in range(3)]


@pytest.mark.parametrize("kind", ["tables", "streams"])
def test_wide_rows(spark, tmp_path, kind):
    """300 columns on either side, all of whose names both sides have."""
    columns = [WIDE[number % 4].format(number) for number in range(1, 300)]
    names, found = joined_as(kind, spark, tmp_path, ["n AS id", *columns], ["n AS id", *columns])
    sides = [["id", *(f"c{number}" for number in range(1, 300))]] * 2
    assert names == [
        f"{side}_{name}" for side, some in zip("rs", sides, strict=True) for name in some
    ]
    assert found == [2 * wide(n) for n in range(3)]


WIDE = [
    "n + {0} AS c{0}",
    "nullif(n, {0} % 3) AS c{0}",
    "concat('v', n + {0}) AS c{0}",
    "named_struct('a', array(n, NULL), 'm', map('k', {0})) AS c{0}",
]


def wide(n: int) -> tuple:
    ways = [
        lambda number: n + number,
        lambda number: None if n == number % 3 else n,
        lambda number: f"v{n + number}",
        lambda number: ([n, None], {"k": number}),
    ]
    return (n, *(ways[number % 4](number) for number in range(1, 300)))


@pytest.mark.parametrize("kinds", ["tables", "streams", "stream and table"])
@pytest.mark.parametrize("distinct", [False, "unbounded"])
def test_what_is_noted_beside_columns_stays(spark, tmp_path, kinds, distinct):
    """But for what Spark notes of watermarks: behind windows of rows that is another one."""
    ROWS.write(tmp_path / "rows", 1)
    table, rows = ROWS.frame(spark), stream(spark, tmp_path / "rows")
    r = (table if kinds == "tables" else rows).withMetadata("n", {"unit": "px", "of": [1, 2]})
    s = (rows if kinds == "streams" else table).withMetadata("x", {"comment": "a price"})
    timed = {} if kinds == "stream and table" else {"window": "time:1s", "time": "t"}
    joined = stream_join(
        r, s, "r.n = s.n", select="r.t, r.n AS id, s.x, s.name", distinct=distinct, **timed
    )
    notes = {one.name: one.metadata for one in joined.schema}
    assert notes.pop("t").keys() <= {WATERMARK, PASSED}
    assert notes == {"id": {"unit": "px", "of": [1, 2]}, "x": {"comment": "a price"}, "name": {}}
    if kinds == "tables":
        assert sorted(row.id for row in joined.collect()) == [0, 1, 2]


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
