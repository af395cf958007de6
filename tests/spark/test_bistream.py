"""The queries of the BiStream paper on streams, with sums on top, against DuckDB on tables."""

import os
from contextlib import redirect_stdout
from io import StringIO

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.bistream import queries
from examples.bistream.__main__ import NATIONS, SCALE, STREAMS, TABLES, generate, main
from examples.bistream.view import View


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Make the tables that the example makes, which are the same whenever they are made."""
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder, SCALE, files=1)
    made = duckdb.connect()
    for name in (*STREAMS, *TABLES):
        made.sql(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
    return made


@pytest.fixture(scope="module")
def printed(spark):
    """Run the example, python -m examples.bistream, and return what it prints."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
        patch.setattr("sys.argv", ["bistream"])
        main()
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("query", "sql"),
    [("q5", queries.Q5), ("q7", queries.Q7.format(*NATIONS)), ("band", queries.BAND)],
)
def test_the_example_prints_what_duckdb_finds(printed, database, query, sql):
    expected = sorted(database.sql(sql).fetchall())
    assert len(expected) >= 2
    lines = [line.partition(": ") for line in printed]
    found = [rest for name, _, rest in lines if name == query]
    assert found == [", ".join(map(str, row)) for row in expected]


def test_the_example_query_of_section_3_4(spark, tmp_path):
    rng = np.random.default_rng(1)
    database = duckdb.connect()
    frames = []
    for name, a in (("r", "a"), ("s", "b")):
        (tmp_path / name).mkdir()
        times = 10**15 + np.sort(rng.integers(0, 36 * 10**8, 90))
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                f"{a}1": rng.integers(0, 50, 90),
                f"{a}2": rng.integers(0, 5, 90),
            }
        )  # fmt: skip
        database.register(name, table)
        for number in range(2):
            file = tmp_path / name / f"{number}.parquet"
            pq.write_table(table.slice(45 * number, 45), file)
            os.utime(file, (10**9 + number,) * 2)  # a stream reads the older file first
        reader = spark.readStream.schema(f"ts timestamp, {a}1 long, {a}2 long")
        stream = reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / name))
        frames.append(stream.withWatermark("ts", "1 minute"))
    view = View(["a2"], ("sum", "b2"))
    found = view.run(queries.example(*frames), str(tmp_path / "state"))
    assert found == sorted(database.sql(queries.EXAMPLE).fetchall())
    assert len(found) == 5


def test_a_view_goes_on_where_its_query_was(spark, tmp_path):
    (tmp_path / "in").mkdir()

    def found() -> list[tuple]:
        rows = spark.readStream.schema("k long, v long").parquet(str(tmp_path / "in"))
        return View(["k"], ("sum", "v"), ("max", "v")).run(rows, str(tmp_path / "state"))

    for number, expected in enumerate(([(0, 6, 4), (1, 4, 3)], [(0, 12, 4), (1, 8, 3)])):
        table = pa.table({"k": [0, 1, 0, 1, 0], "v": range(5)})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
        assert found() == expected
    assert found() == expected
    (tmp_path / "state" / "view").unlink()
    with pytest.raises(ValueError, match="has batches and no view of them"):
        found()


def test_a_batch_that_comes_again_is_merged_once(spark):
    view = View(["k"], ("sum", "v"), ("max", "v"))
    batch = spark.sql("SELECT id % 2 AS k, id AS v FROM range(5)")
    view.merge(batch, 0)
    view.merge(batch, 0)
    assert view.rows == {(0,): [6, 4], (1,): [4, 3]}
    view.merge(batch, 1)
    assert view.rows == {(0,): [12, 4], (1,): [8, 3]}
