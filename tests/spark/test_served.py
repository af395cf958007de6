"""Units on a device that another process owns, and what happens when that one is killed."""

from eddyline.spark import stream_join
from tests.host.test_serve import serving
from tests.spark.streams import Rows, band, brute, finished, pairs, seconds, stream

R, S = Rows.random(5, 60), Rows.random(6, 60)
QUERY = {"window": "time:5s", "time": "t", "select": "r.n AS r, s.n AS s"}
BAND = "abs(r.x - s.x) <= 2"


def test_tables_meet_on_a_served_device(spark, tmp_path):
    with serving(tmp_path / "socket") as (_, line):
        assert line.startswith("serving")
        joined = stream_join(
            R.frame(spark), S.frame(spark), BAND, device=f"unix:{tmp_path}/socket", **QUERY
        )
        assert pairs(joined) == brute(R, S, band(R, S, 2), seconds(5, 5))


def test_another_device_takes_over_when_the_owner_is_killed(spark, tmp_path):
    for name, rows in (("r", R), ("s", S)):
        rows.write(tmp_path / name, 2)
    spark.conf.set("spark.eddyline.failover", "cpu")
    try:
        with serving(tmp_path / "socket") as (process, _):
            joined = stream_join(
                *(stream(spark, tmp_path / name) for name in "rs"), BAND,
                device=f"unix:{tmp_path}/socket", **QUERY,
            )  # fmt: skip
            process.kill()
            process.wait()
    finally:
        spark.conf.unset("spark.eddyline.failover")
    assert finished(joined, tmp_path / "out") == brute(R, S, band(R, S, 2), seconds(5, 5))
