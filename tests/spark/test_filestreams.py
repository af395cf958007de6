"""Streams of plain files are read by workers, with the same result; all others by Spark."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F

from eddyline.errors import DataError
from eddyline.spark import stream_join
from eddyline.spark.filestreams import file_names, is_plain_stream
from eddyline.spark.parquet import read_rows
from eddyline.spark.schemas import arrow_schema
from tests.spark.streams import Rows, band, brute, finished, seconds, stream, written

IDS = "r.n AS r, s.n AS s"
BAND = "abs(r.x - s.x) <= 2"
R, S = Rows.random(1, 400, disorder=10**6), Rows.random(2, 300, disorder=10**6)


@pytest.fixture
def folder(tmp_path):
    R.write(tmp_path / "r", 3)
    S.write(tmp_path / "s", 2)
    return tmp_path


def is_plain(frame):
    return is_plain_stream(frame, arrow_schema(frame))


def sees_no_rows(frame, capfd):
    """Say whether Python is sent names of files instead of rows."""
    frame.explain(extended=True)
    return "_metadata" in capfd.readouterr().out


@pytest.mark.parametrize("units", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_workers_read_plain_files(spark, folder, units, capfd):
    sides = [stream(spark, folder / side).select("t", "n", "x") for side in "rs"]
    joined = stream_join(
        *sides, BAND, window=("time:2s", "time:9s"), time="t", select=IDS, units=units
    )
    assert sees_no_rows(joined, capfd)
    assert finished(joined, folder / "out") == brute(R, S, band(R, S, 2), seconds(2, 9))


def test_a_side_that_is_not_plain_is_read_by_spark(spark, folder, capfd):
    r, s = stream(spark, folder / "r"), stream(spark, folder / "s")
    joined = stream_join(r, s.where("n >= 100"), BAND, window="time:3s", time="t", select=IDS)
    assert sees_no_rows(joined, capfd)
    wanted = [pair for pair in brute(R, S, band(R, S, 2), seconds(3, 3)) if pair[1] >= 100]
    assert finished(joined, folder / "out") == wanted


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame,
        lambda frame: frame.select("x", "t"),
        lambda frame: frame.drop("name").alias("a").select("a.x", "a.t"),
    ],
)
def test_columns_may_be_chosen(spark, folder, change):
    assert is_plain(change(stream(spark, folder / "r")))
    assert is_plain(change(stream(spark, folder / "r", delay=None)))


@pytest.mark.parametrize("fields", [None, "7"])
def test_streams_of_many_columns_are_plain(spark, tmp_path, fields):
    """Spark leaves most of them out of a plan, unless it is told not to; that is left as it was."""
    name = "spark.sql.debug.maxToStringFields"
    (tmp_path / "wide").mkdir()
    wide = pa.table({f"c{number}": [1, 2] for number in range(200)})
    pq.write_table(wide, tmp_path / "wide" / "0.parquet")
    schema = ", ".join(f"{name} long" for name in wide.column_names)
    if fields:
        spark.conf.set(name, fields)
    try:
        assert is_plain(spark.readStream.schema(schema).parquet(str(tmp_path / "wide")))
        assert spark.conf.get(name, None) == fields
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.where("x > 3"),
        lambda frame: frame.union(frame),
        lambda frame: frame.withColumn("x", F.col("x") + 1),
        lambda frame: frame.withColumn("x", F.col("x").cast("int") * 1),
        lambda frame: frame.withColumnRenamed("x", "y"),
        lambda frame: frame.select(F.col("n").alias("x"), F.col("x").alias("n"), "t"),
        lambda frame: frame.select("t", F.lit(1).alias("x")),
        lambda frame: frame.dropDuplicates(["x"]),
        lambda frame: frame.join(frame.sparkSession.range(3).toDF("x"), "x"),
        lambda frame: frame.select("t", F.explode(F.array("x", "x")).alias("x")),
        lambda frame: frame.sample(0.5, seed=1),
        lambda frame: frame.select("n", "x"),  # its watermark is one nobody could tell any more
    ],
)
def test_whatever_else_a_frame_does_is_left_to_spark(spark, folder, change):
    assert not is_plain(change(stream(spark, folder / "r")))


def test_other_sources_are_left_to_spark(spark, tmp_path):
    assert not is_plain(spark.readStream.format("rate").load())
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("1\n")
    assert not is_plain(spark.readStream.schema("x int").csv(str(tmp_path / "csv")))


def test_looking_for_plain_streams_logs_no_errors(spark, folder, monkeypatch):
    logged = []
    monkeypatch.setattr(PySparkLogger, "exception", lambda *told, **more: logged.append(told[1:]))
    (folder / "csv").mkdir()
    (folder / "csv" / "a.csv").write_text("1\n")
    for frame in (
        spark.readStream.format("rate").load(),
        spark.readStream.schema("x int").csv(str(folder / "csv")),
        stream(spark, folder / "r").where("x > 3"),
        stream(spark, folder / "r").groupBy("t").count(),
    ):
        assert not is_plain(frame)
    assert not logged


def test_without_a_file_that_fits_spark_reads(spark, tmp_path):
    (tmp_path / "r").mkdir()
    frame = stream(spark, tmp_path / "r")
    assert not is_plain(frame)
    pq.write_table(pa.table({"n": [1]}), tmp_path / "r" / "0.parquet")
    assert not is_plain(frame)
    R.write(tmp_path / "x=1", 1)
    assert not is_plain(stream(spark, tmp_path / "x=1"))


def test_it_can_be_switched_off(spark, folder):
    spark.conf.set("spark.eddyline.readFiles", "false")
    try:
        assert not is_plain(stream(spark, folder / "r"))
    finally:
        spark.conf.unset("spark.eddyline.readFiles")


def test_the_watermark_sees_every_row(spark, folder):
    """Else rows would be late later than they are, and state be kept for longer."""
    names = file_names(stream(spark, folder / "r"))
    query = names.writeStream.format("noop").trigger(availableNow=True)
    running = query.option("checkpointLocation", str(folder / "state")).start()
    running.awaitTermination()
    told = [one["eventTime"]["max"] for one in running.recentProgress if one["numInputRows"]]
    newest = [part.max() // 1000 for part in np.array_split(R.t, 3)]
    assert told == [f"{np.datetime64(int(one), 'ms')}Z" for one in newest]


@pytest.mark.slow
def test_who_reads_may_change_between_runs(spark, tmp_path):
    expected = brute(R, S, band(R, S, 2), seconds(20, 20))
    for number, by_workers in enumerate(("false", "true", "false")):
        for name, rows in (("r", R), ("s", S)):
            part = np.array_split(np.arange(len(rows.n)), 3)[number]
            Rows(rows.n[part], rows.t[part], rows.x[part]).write(tmp_path / name, 1, first=number)
        with_setting(spark, by_workers, lambda: join_all(spark, tmp_path))
    assert written(spark, tmp_path / "out") == expected


def join_all(spark, folder):
    sides = [stream(spark, folder / side) for side in "rs"]
    joined = stream_join(*sides, BAND, window="time:20s", time="t", select=IDS)
    return finished(joined, folder / "out")


def with_setting(spark, value, work):
    spark.conf.set("spark.eddyline.readFiles", value)
    try:
        return work()
    finally:
        spark.conf.unset("spark.eddyline.readFiles")


def test_a_file_that_does_not_fit_is_refused_and_spark_can_go_on(spark, folder):
    """It comes when the query runs, so that it is too late for the common way."""
    sides = [stream(spark, folder / side) for side in "rs"]
    joined = stream_join(*sides, BAND, window="time:20s", time="t", select=IDS)
    table = S.table()
    narrow = table.set_column(2, "x", table["x"].cast(pa.int16()))
    pq.write_table(narrow.slice(200), folder / "s" / "001.parquet")
    with pytest.raises(Exception, match=r"001.parquet: column 'x' is int16 there.*readFiles=false"):
        finished(joined, folder / "out")
    found = with_setting(spark, "false", lambda: join_all(spark, folder))
    pairs = brute(R, S, band(R, S, 2), seconds(20, 20))
    assert found == [pair for pair in pairs if pair[1] < 150 or pair[1] >= 200]


def test_times_as_spark_writes_them(spark, folder):
    for name, rows in (("r", R), ("s", S)):
        rows.frame(spark).coalesce(1).write.parquet(str(folder / "by spark" / name))
    sides = [stream(spark, folder / "by spark" / name) for name in "rs"]
    assert all(map(is_plain, sides))
    assert {column.physical_type for column in leaves(folder / "by spark")} >= {"INT96"}
    joined = stream_join(*sides, BAND, window="time:2s", time="t", select=IDS)
    assert finished(joined, folder / "out") == brute(R, S, band(R, S, 2), seconds(2, 2))


def leaves(folder):
    schema = pq.ParquetFile(next(folder.rglob("*.parquet"))).schema
    return [schema.column(one) for one in range(len(schema))]


WANTED = pa.schema([("t", pa.timestamp("us", "UTC"))])


def test_files_that_cannot_be_read_are_named(tmp_path):
    gone = tmp_path / "gone.parquet"
    with pytest.raises(DataError, match=r"cannot read .*gone.parquet: .*No such file.*checkpoint"):
        list(read_rows(f"file:{gone}", WANTED))
    gone.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"cannot read .*gone.parquet"):
        list(read_rows(f"file:{gone}", WANTED))


@pytest.mark.parametrize("note", [{}, {"org.apache.spark.version": "4.3.0"}])
def test_old_times_are_read_where_their_calendar_is_known(tmp_path, note):
    times = pa.array([-(10**16), None], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"t": times}).replace_schema_metadata(note), tmp_path / "a b.parquet")
    name = f"file:{tmp_path}/a%20b.parquet"
    if note:
        assert [rows["t"] for rows in read_rows(name, WANTED)] == [times]
    else:
        with pytest.raises(DataError, match="times before 1900"):
            list(read_rows(name, WANTED))
