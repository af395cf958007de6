"""What a unit stores is chunks in Spark's state: full ones are archived, old ones dropped."""

import json

import pytest

from eddyline.spark import stream_join
from tests.spark.streams import Rows, band, brute, finished, seconds, stream


@pytest.fixture
def small_chunks(spark):
    spark.conf.set("spark.eddyline.chunkBytes", "1500")
    yield
    spark.conf.unset("spark.eddyline.chunkBytes")


def test_full_chunks_are_archived_and_old_ones_dropped(spark, tmp_path, small_chunks):
    r, s = Rows.random(1, 400), Rows.random(2, 100)
    for name, rows in (("r", r), ("s", s)):
        rows.write(tmp_path / name, 5)
    joined = stream_join(
        *(stream(spark, tmp_path / name, delay="1 second") for name in "rs"),
        "abs(r.x - s.x) <= 2", window="time:15s", time="t", select="r.n AS r, s.n AS s",
    )  # fmt: skip
    assert finished(joined, tmp_path / "out") == brute(r, s, band(r, s, 2), seconds(15, 15))
    early, late = (directory(spark, tmp_path / "out", batch) for batch in (1, None))
    assert len(early) >= 2  # more than one, since rows of a batch fill one
    assert max(one["bytes"] for one in early + late) < 2 * 1500
    assert {one["number"] for one in early}.isdisjoint(one["number"] for one in late)
    assert sum(one["rows"] for one in late) <= len(r.n) // 2
    # The watermark is a second behind the last row, and rows are kept for 15 more.
    newest = max(one["high"] for one in late)
    assert all(one["high"] >= newest - 16 * 10**6 for one in late)
    assert payloads(spark, tmp_path / "out") == {one["number"] for one in late}


def state(spark, out, variable, batch=None):
    reader = spark.read.format("statestore").option("stateVarName", variable)
    if batch is not None:
        reader = reader.option("batchId", batch)
    return reader.load(str(out / "state"))


def directory(spark, out, batch=None) -> list[dict]:
    """Return what the unit knows of its chunks of R after a batch, by default the last one."""
    [told] = state(spark, out, "unit", batch).select("value.r").collect()
    return json.loads(told[0])


def payloads(spark, out) -> set[int]:
    """Return the numbers of the chunks that are there."""
    found = state(spark, out, "stored_r").selectExpr("user_map_key.number").collect()
    return {row[0] for row in found}
