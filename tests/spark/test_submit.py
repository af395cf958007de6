"""Spark's own ways to start: with sessions that know nothing of us."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException

from eddyline.spark import stream_join
from eddyline.spark.java import find_java
from tests.spark.streams import Rows, band, brute, counted, seconds, stream

ROOT = Path(__file__).parents[2]
R, S = Rows.random(1, 60), Rows.random(2, 60)
SMALL = ["--driver-memory", "1g", "--driver-java-options=-XX:TieredStopAtLevel=1"]
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SHELL = """
import json
from pathlib import Path
from tests.spark.submitted_job import joined

folder = Path({folder!r})
told = dict(pairs=joined(spark, folder))
_ = (folder / "told.json").write_text(json.dumps(told))
"""
SESSION = """
from eddyline.spark import session
spark = session(master="local[2]")
"""
# Cells are pieces of __main__, which is no file, and run one by one where a loop runs already.
KERNEL = """
import __main__, asyncio

async def work(cells):
    for number, cell in enumerate(cells):
        exec(compile(cell, f"<cell {{number}}>", "exec"), vars(__main__))

asyncio.run(work({cells!r}))
"""


def run(command: list[str], folder: Path, **options) -> dict:
    """Run a command of Spark's beside this Python, and return what the job has told."""
    find_java()
    for name, rows in (("r", R), ("s", S)):
        rows.write(folder / name, 2)
    home = Path(pyspark.__file__).parent
    beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": beside, "PYTHONPATH": str(ROOT)}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    # A shell is one only where somebody types; this says that it is.
    environment |= {"PYSPARK_DRIVER_PYTHON_OPTS": "-i"} if command[0] == "pyspark" else {}
    small = [] if command[0] == sys.executable else SMALL
    told = subprocess.run(
        [str(home / "bin" / command[0]), *small, *command[1:]],
        env=environment, capture_output=True, text=True, cwd=folder, **options,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    assert (folder / "told.json").exists(), told.stderr[-3000:]
    return json.loads((folder / "told.json").read_text())


def expected() -> list[list[int]]:
    return [list(pair) for pair in brute(R, S, band(R, S, 2), seconds(3, 3))]


def test_a_submitted_job_needs_nothing_set_up(tmp_path):
    job = str(ROOT / "tests" / "spark" / "submitted_job.py")
    given = ["--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=3"]
    given += ["--conf", f"spark.eddyline.metrics={tmp_path / 'metrics'}"]
    told = run(["spark-submit", *given, job, str(tmp_path)], tmp_path)
    assert told["pairs"] == expected()
    # One core has one Python worker, so every batch after the first finds the unit there.
    counts = counted(tmp_path / "metrics")
    assert counts["new"] == 1
    assert counts["hit"] >= 1
    assert counts["lost"] == counts["stale"] == 0
    assert told["running"] == [True, "3"]
    assert told["given"] == ["local[1]", "3"]
    assert told["default"] == "65536"
    assert told["asked"] == ["local[2]", "5"]


@pytest.mark.slow
def test_the_shell_needs_nothing_set_up(tmp_path):
    shell = ["pyspark", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    told = run(shell, tmp_path, input=SHELL.format(folder=str(tmp_path)))
    assert told["pairs"] == expected()


@pytest.mark.slow
def test_a_notebook_needs_nothing_set_up(tmp_path):
    cells = [SESSION, *SHELL.format(folder=str(tmp_path)).split("\n\n")]
    told = run([sys.executable, "-c", KERNEL.format(cells=cells)], tmp_path)
    assert told["pairs"] == expected()


def test_a_state_store_that_was_chosen_is_not_replaced(spark, tmp_path):
    R.write(tmp_path / "r", 1)
    frame = stream(spark, tmp_path / "r")
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, before.replace("RocksDB", "HDFSBacked"))
    try:
        with pytest.raises(AnalysisException, match="EDDYLINE.STATE_STORE.*HDFSBacked.*RocksDB"):
            stream_join(frame, frame, "r.x < s.x", window="time:3s", time="t")
    finally:
        spark.conf.set(PROVIDER, before)
