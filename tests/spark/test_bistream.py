"""The queries of the BiStream paper on streams, with sums on top, against DuckDB on tables."""

import os

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.bistream import queries
from examples.bistream.__main__ import (
    NATIONS,
    STREAMS,
    TABLES,
    generate,
    main,
    opened,
    results,
    views,
)
from examples.bistream.view import View


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tpch")
    generate(made, "0.003", files=2)
    return made


@pytest.mark.parametrize(
    ("query", "sql"),
    [("q5", queries.Q5), ("q7", queries.Q7.format(*NATIONS)), ("band", queries.BAND)],
)
def test_tpc_h_as_duckdb_has_it(spark, folder, tmp_path, query, sql):
    database = duckdb.connect()
    for name in (*STREAMS, *TABLES):
        database.sql(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
    expected = sorted(database.sql(sql).fetchall())
    assert len(expected) >= 2
    joined = results(opened(spark, folder))[query]
    assert views()[query].run(joined, str(tmp_path / "state")) == expected


@pytest.mark.slow
def test_the_example_runs(spark, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bistream"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} == {"q5", "q7", "band"}


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


def test_a_batch_that_comes_again_is_merged_once(spark):
    view = View(["k"], ("sum", "v"), ("max", "v"))
    batch = spark.sql("SELECT id % 2 AS k, id AS v FROM range(5)")
    view.merge(batch, 0)
    view.merge(batch, 0)
    assert view.rows == {(0,): [6, 4], (1,): [4, 3]}
    view.merge(batch, 1)
    assert view.rows == {(0,): [12, 4], (1,): [8, 3]}
