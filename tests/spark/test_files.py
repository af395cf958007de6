"""Tables that are plain files are read by workers, with the same result."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from eddyline.spark import stream_join
from eddyline.spark.files import row_groups
from eddyline.spark.rowhash import hashable, row_hashes
from eddyline.spark.schemas import arrow_schema
from tests.spark.streams import Rows, band, brute, pairs, seconds

IDS = "r.n AS r, s.n AS s"
R, S = Rows.random(1, 400, disorder=10**6), Rows.random(2, 300, disorder=10**6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("files of tables")
    R.write(made / "r", 3)
    S.write(made / "s", 2)
    pq.write_table(S.table().slice(0, 0), made / "s" / "none.parquet")
    return made


def found(frame):
    """Return where workers would read a frame, by the names of the files."""
    groups = row_groups(frame, arrow_schema(frame))
    return groups and sorted(Path(path).name for path, _, _ in groups.groups)


@pytest.mark.parametrize("units", [1, 3, (2, 3)])
def test_workers_read_plain_files(spark, folder, units, capsys):
    sides = [spark.read.parquet(str(folder / side)).select("t", "x", "n") for side in "rs"]
    joined = stream_join(
        *sides, "abs(r.x - s.x) <= 2", window=("time:2s", "time:500ms"), time="t", select=IDS,
        units=units,
    )  # fmt: skip
    assert not joined.inputFiles()  # Spark reads none
    joined.explain()
    assert ("FlatMapGroups" in capsys.readouterr().out) == (units != 1)  # one has none to group
    assert pairs(joined) == brute(R, S, band(R, S, 2), seconds(2, 0.5))


def test_rows_of_one_time_have_one_order(spark, tmp_path):
    """Windows of rows depend on it: it must not depend on who has read the rows."""
    rng = np.random.default_rng(5)
    for side in "rs":
        rows = Rows(np.arange(200), 10**15 + rng.integers(0, 9, 200), rng.integers(1, 9, 200))
        rows.write(tmp_path / side, 2)
    sides = [spark.read.parquet(str(tmp_path / side)).drop("name") for side in "rs"]
    schema = "n long, t timestamp, x int"
    plain = [spark.read.schema(schema).parquet(str(tmp_path / side)) for side in "rs"]
    options = {"window": "rows:5", "time": "t", "select": IDS}
    read_here, common = (
        stream_join(*frames, "r.x = s.x", **options)
        for frames in (plain, [side.where("true OR n < 0") for side in sides])
    )
    assert not read_here.inputFiles()
    assert common.inputFiles()
    assert pairs(read_here) == pairs(common) != []


@pytest.mark.parametrize("written", ["{}", "{}/", "file://{}"])
def test_paths_are_written_in_several_ways(spark, folder, written):
    assert found(spark.read.parquet(written.format(folder / "r"))) == [
        "000.parquet", "001.parquet", "002.parquet",
    ]  # fmt: skip


def test_single_files(spark, folder):
    paths = [str(folder / "r" / name) for name in ("000.parquet", "002.parquet")]
    assert found(spark.read.parquet(paths[0])) == ["000.parquet"]
    assert found(spark.read.parquet(*paths)) == ["000.parquet", "002.parquet"]


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.where("x > 3"),
        lambda frame: frame.limit(7),
        lambda frame: frame.union(frame),
        lambda frame: frame.withColumn("x", F.col("x") + 1),
        lambda frame: frame.distinct(),
        lambda frame: frame.sample(0.5, seed=1),
        lambda frame: frame.withColumnRenamed("x", "y"),
        lambda frame: frame.select(F.col("n").alias("x"), F.col("x").alias("n"), "t", "name"),
    ],
)
def test_whatever_else_a_frame_does_is_left_to_spark(spark, folder, change):
    assert found(change(spark.read.parquet(str(folder / "r")))) is None


@pytest.mark.parametrize("change", [lambda frame: frame, lambda frame: frame.where("x > 3")])
@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
def test_tables_of_other_files_are_joined_by_spark(spark, tmp_path, kind, change, capfd):
    part = S.frame(spark).where("x > 0").coalesce(1)
    part.write.format(kind).option("header", True).save(str(tmp_path / "s"))
    read = spark.read.schema(part.schema).format(kind).option("header", True)
    r, s = R.frame(spark), change(read.load(str(tmp_path / "s")))
    joined = stream_join(r, s, "r.x = s.x", window="time:2s", time="t", select=IDS)
    floor = 3 if s.count() < part.count() else 0
    matches = (R.x[:, None] == S.x[None, :]) & (S.x > floor)
    assert pairs(joined) == brute(R, S, matches, seconds(2, 2))
    assert "ERROR" not in "".join(capfd.readouterr())


def test_files_whose_other_columns_do_not_go_together_are_left_to_spark(spark, tmp_path):
    pq.write_table(pa.table({"n": [1], "x": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"n": [1], "x": ["one"]}), tmp_path / "1.parquet")
    spark.conf.set("spark.sql.parquet.mergeSchema", "true")
    try:
        assert found(spark.read.schema("n long, x long").parquet(str(tmp_path)).select("n")) is None
    finally:
        spark.conf.unset("spark.sql.parquet.mergeSchema")


def test_options_of_the_reader_are_left_to_spark(spark, folder):
    read = spark.read.option("pathGlobFilter", "001*")
    assert found(read.parquet(str(folder / "r"))) is None


def test_what_is_cached_is_not_read_again(spark, folder):
    frame = spark.read.parquet(str(folder / "r")).cache()
    assert found(frame) is None
    frame.unpersist()


def test_it_can_be_switched_off(spark, folder):
    spark.conf.set("spark.eddyline.readFiles", "false")
    try:
        assert found(spark.read.parquet(str(folder / "r"))) is None
    finally:
        spark.conf.unset("spark.eddyline.readFiles")


@pytest.mark.parametrize(
    ("column", "notes"),
    [
        (pa.array([1], pa.timestamp("ms", "UTC")), {}),  # Spark makes microseconds of it
        (pa.array([1], pa.date32()), {"org.apache.spark.legacyDateTime": ""}),
        (pa.array([1], pa.date32()), {"org.apache.spark.version": "2.4.8"}),
        (pa.array([[1]]), {}),
    ],
)
def test_files_that_arrow_reads_otherwise_are_left_to_spark(spark, tmp_path, column, notes):
    table = pa.table({"c": column}).replace_schema_metadata(notes)
    pq.write_table(table, tmp_path / "one.parquet")
    assert found(spark.read.parquet(str(tmp_path))) is None


def test_partitions_in_names_of_folders_are_left_to_spark(spark, tmp_path):
    spark.createDataFrame(R.table()).write.partitionBy("x").parquet(str(tmp_path / "cut"))
    assert found(spark.read.parquet(str(tmp_path / "cut"))) is None


def test_hashes_are_those_of_spark(spark):
    table = pa.table(
        {
            "i": pa.array([1, None, -5, 2**31 - 1], pa.int32()),
            "d": pa.array([1.5, -0.0, float("nan"), None]),
            "l": pa.array([1, -(2**62), None, 0], pa.int64()),
            "b": pa.array([True, False, None, True]),
            "f": pa.array([0.1, -0.0, None, float("nan")], pa.float32()),
            "t": pa.array([0, 10**15, -3, None], pa.timestamp("us", "UTC")),
            "y": pa.array([-1, 2, 3, None], pa.int8()),
            "day": pa.array([-1, 2, None, 3], pa.int32()).cast(pa.date32()),
        }
    )
    assert hashable(table.schema)
    assert not hashable(pa.schema([("s", pa.string())]))
    theirs = spark.createDataFrame(table).select(F.xxhash64(*table.column_names)).collect()
    assert row_hashes(table.to_batches()[0]).tolist() == [row[0] for row in theirs]
