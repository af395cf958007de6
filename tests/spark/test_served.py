"""Units on a device that another process owns, and what happens when that one is killed."""

import json
import signal
import subprocess
import sys
import time

import pytest

from eddyline.biclique.unit import Sent
from eddyline.device.lease import leased
from eddyline.spark import leases, stream_join
from tests.host.test_serve import serving
from tests.spark.joining import query_of, rows_of
from tests.spark.streams import Rows, band, brute, counted, pairs, seconds, stream, written

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


def test_a_device_that_only_workers_can_reach_is_not_asked_when_the_query_is_built(
    spark, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("EDDYLINE_FPGAS", "another")
    device = f"unix:{tmp_path}/socket"
    sides = [rows.frame(spark) for rows in (R, S)]
    assert stream_join(*sides, BAND, device="fpga", **QUERY).columns == ["r", "s"]
    assert not caplog.records
    joined = stream_join(*sides, BAND, device=device, **QUERY)
    assert f"whether {device} does the plan, for here nobody serves" in caplog.text
    with serving(tmp_path / "socket"):
        assert pairs(joined) == brute(R, S, band(R, S, 2), seconds(5, 5))


def test_executors_of_a_host_share_the_process_that_owns_their_device(tmp_path, monkeypatch):
    """Each leases an address of its own, all of which are of one socket."""
    device = f"sim:splitjoin?cores=2&window=64#{tmp_path.name}"
    addresses = [f"unix:{tmp_path}/socket#{number}" for number in range(2)]
    monkeypatch.setenv("EDDYLINE_FPGAS", " ".join(addresses))
    executors = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(3)
    ]
    discovery = [sys.executable, "-m", "eddyline.cli.main", "fpga-discovery", "--owner"]
    units, found = [], []
    try:
        with serving(tmp_path / "socket", device) as (server, _):
            for executor in executors:
                command = [*discovery, str(executor.pid)]
                told = subprocess.run(command, capture_output=True, text=True)
                if executor is executors[-1]:
                    assert "0 of 2 are free" in told.stderr
                    break
                [address] = json.loads(told.stdout)["addresses"]
                monkeypatch.setattr(leases, "_scheduled", lambda address=address: address)
                units.append(leases.HeldUnit(query_of(BAND, "time:5ms"), leases.FPGA, units=1))
            assert all(unit.lasting for unit in units)
            owners = dict(zip([*addresses, device], [*executors[:2], server], strict=True))
            assert {one: leased()[one] for one in owners} == {
                one: process.pid for one, process in owners.items()
            }
            for number, unit in enumerate(units):  # both have windows of their own
                unit.load(rows_of([(number, 1, 3)]), rows_of([]))
            for unit in units:
                results = unit.join(Sent(rows_of([])), Sent(rows_of([(7, 2, 4)])))
                found.append([row for one in results for row in one.to_pylist()])
                unit.close()
    finally:
        for executor in executors:
            executor.kill()
            executor.wait()
            executor.stdin.close()
    assert found == [[{"r": 0, "s": 7}], [{"r": 1, "s": 7}]]


def arrive(folder, part, *, number):
    for name, rows in (("r", R), ("s", S)):
        some = Rows(rows.n[part], rows.t[part], rows.x[part])
        some.write(folder / name, 1, first=number)


def wait_for_a_task(spark):
    """Wait until a task has been running for a while: as long as the device is stopped, it is."""
    tracker = spark.sparkContext.statusTracker()
    seen = 0
    while seen < 20:
        time.sleep(0.1)
        stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
        seen = seen + 1 if any(one and one.numActiveTasks for one in stages) else 0


@pytest.mark.parametrize(
    "device",
    ["reference", pytest.param("sim:splitjoin?cores=2&window=128", marks=pytest.mark.slow)],
)
def test_another_device_takes_over_when_the_owner_is_killed(spark, tmp_path, device):
    """It is stopped first, so that a task waits for it when it is killed."""
    metrics = tmp_path / "metrics"
    arrive(tmp_path, slice(30), number=0)
    spark.conf.set("spark.eddyline.failover", "cpu")
    spark.conf.set("spark.eddyline.metrics", str(metrics))
    try:
        with serving(tmp_path / "socket", device) as (process, _):
            joined = stream_join(
                *(stream(spark, tmp_path / name) for name in "rs"), BAND,
                device=f"unix:{tmp_path}/socket", **QUERY,
            )  # fmt: skip
            writer = joined.writeStream.format("parquet").option("path", str(tmp_path / "out/rows"))
            query = writer.option("checkpointLocation", str(tmp_path / "state")).start()
            query.processAllAvailable()
            assert counted(metrics)["failover"] == 0
            process.send_signal(signal.SIGSTOP)
            arrive(tmp_path, slice(30, None), number=1)
            wait_for_a_task(spark)
            process.kill()
            process.wait()
            query.processAllAvailable()
            query.stop()
    finally:
        spark.conf.unset("spark.eddyline.failover")
        spark.conf.unset("spark.eddyline.metrics")
    assert written(spark, tmp_path / "out") == brute(R, S, band(R, S, 2), seconds(5, 5))
    assert counted(metrics)["failover"] >= 1
