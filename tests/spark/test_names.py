"""Names of columns, as Spark's users write them and as they expect them back."""

import pytest
from pyspark.errors import AnalysisException

from eddyline.spark import stream_join
from tests.spark.streams import Rows, band, brute, finished, pairs, seconds, stream

KEYED = "SELECT 1 AS Id, 2 AS v"
OTHER = "SELECT 1 AS id, 3 AS V"


@pytest.fixture
def cased(spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("on", ["r.Id = s.id", "R.ID = s.Id"])
def test_names_that_differ_in_case_are_told_apart(spark, on):
    joined = stream_join(spark.sql(KEYED), spark.sql(OTHER), on)
    assert joined.columns == ["r_Id", "r_v", "s_id", "s_V"]
    assert joined.select("r_id", "s_v").collect() == [(1, 3)]


def test_names_that_differ_in_case_are_ambiguous_without_a_side(spark):
    with pytest.raises(AnalysisException, match="'id' is ambiguous: write r.Id or s.id"):
        stream_join(spark.sql(KEYED), spark.sql(OTHER), "r.Id = s.id", select="id")
    with pytest.raises(AnalysisException, match="two result columns are called 'X'"):
        stream_join(spark.sql(KEYED), spark.sql(OTHER), "r.Id = s.id", select="r.v AS x, s.V AS X")


def test_case_matters_where_spark_is_told_so(spark, cased):
    joined = stream_join(spark.sql(KEYED), spark.sql(OTHER), "r.Id = s.id")
    assert joined.columns == ["Id", "v", "id", "V"]
    assert joined.select("V").collect() == [(3,)]


def test_a_time_column_in_another_case(spark, tmp_path):
    r, s = Rows.random(1, 60), Rows.random(2, 60)
    query = {"window": "time:3s", "time": "T", "select": "R.N AS r, s.n AS s"}
    expected = brute(r, s, band(r, s, 2), seconds(3, 3))
    tables = stream_join(r.frame(spark), s.frame(spark), "abs(r.X - S.x) <= 2", **query)
    assert pairs(tables) == expected
    for name, rows in (("r", r), ("s", s)):
        rows.write(tmp_path / name, 1)
    sides = (stream(spark, tmp_path / name, delay=None) for name in "rs")
    streams = stream_join(*sides, "abs(r.X - S.x) <= 2", lateness="5s", **query)
    assert finished(streams, tmp_path / "out") == expected


def test_a_time_column_whose_name_has_a_dot(spark, tmp_path):
    r, s = Rows.random(1, 60), Rows.random(2, 60)
    for name, rows in (("r", r), ("s", s)):
        rows.write(tmp_path / name, 2)
    sides = (
        stream(spark, tmp_path / name, delay=None).withColumnRenamed("t", "e.t") for name in "rs"
    )
    joined = stream_join(
        *sides, "abs(r.x - s.x) <= 2", window="time:3s", time="e.t", lateness="5s",
        select="r.n AS r, s.n AS s",
    )  # fmt: skip
    assert finished(joined, tmp_path / "out") == brute(r, s, band(r, s, 2), seconds(3, 3))


@pytest.mark.parametrize("on", ["r.`a b` = s.k", 'r."a b" = s.k', "r.`A B` = s.`k`"])
def test_quoted_names(spark, on):
    r = spark.sql("SELECT 1 AS `a b`, 2 AS `c.d`, 4 AS `select`, 5 AS `ü`")
    joined = stream_join(r, spark.sql("SELECT 1 AS k, 9 AS `c.d`"), on)
    assert joined.columns == ["a b", "r_c.d", "select", "ü", "k", "s_c.d"]
    assert [tuple(row) for row in joined.collect()] == [(1, 2, 4, 5, 1, 9)]
    some = stream_join(r, spark.sql("SELECT 1 AS k"), on, select="r.`c.d` AS `x y`, `select`")
    assert some.columns == ["x y", "select"]


@pytest.mark.parametrize("name", ["e`f", "e.f"])
def test_names_that_mapinarrow_cannot_take(spark, tmp_path, name):
    quoted = "`" + name.replace("`", "``") + "`"
    r, s = spark.sql(f"SELECT 1 AS id, 2 AS {quoted}"), spark.range(3).withColumnRenamed("id", "k")
    joined = stream_join(r, s, f"r.{quoted} = s.k", distinct="unbounded")
    assert joined.columns == ["id", name, "k"]
    assert pairs(joined) == [(1, 2, 2)]
    Rows.random(1, 9).write(tmp_path / "s", 1)
    static = stream_join(r, stream(spark, tmp_path / "s"), f"r.{quoted} <> s.n", select="s.n")
    assert finished(static, tmp_path / "out") == [(n,) for n in range(9) if n != 2]
