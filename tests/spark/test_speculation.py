"""Two attempts of a task at the same time, on two hosts: Spark copies no task on the same host.

Both hosts are this machine, under two of the addresses that lead back to it.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from eddyline.spark.java import find_java
from tests.spark.speculated_job import R, S
from tests.spark.streams import brute, counted, seconds

TOP = Path(__file__).parents[2]


@contextmanager
def running(kind: str, folder: Path, *options: str) -> Iterator[None]:
    """Run a master or worker of Spark's own cluster."""
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    # Executors inherit it, and import the tests.
    environment = {**os.environ, "PYTHONPATH": str(TOP), "PYSPARK_PYTHON": sys.executable}
    environment["SPARK_LOCAL_IP"] = options[options.index("--host") + 1]
    with open(folder / f"{options[1]}.log", "w") as log:
        process = subprocess.Popen(
            [script, f"org.apache.spark.deploy.{kind}", *options, "--webui-port", "0"],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield
        finally:
            process.terminate()
            process.wait()


@pytest.mark.slow
def test_of_two_attempts_at_the_same_time_one_counts(tmp_path):
    find_java()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as cluster:
        cluster.enter_context(
            running("master.Master", tmp_path, "--host", "127.0.0.1", "--port", str(port))
        )
        for host in ("127.0.0.2", "127.0.0.3"):
            options = ("--host", host, "--cores", "1", "--memory", "1g", "--work-dir")
            work = tmp_path / host
            cluster.enter_context(running("worker.Worker", tmp_path, *options, str(work), master))
        told = subprocess.run(
            [sys.executable, "-m", "tests.spark.speculated_job", master, str(tmp_path)],
            cwd=TOP, capture_output=True, text=True, timeout=500,
        )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    assert list(tmp_path.glob("attempt-*")), "no copy was made of the task that lagged"
    assert counted(tmp_path / "metrics")["retry"] >= 1
    matches = R.x[:, None] == S.x[None, :]
    expected = [list(pair) for pair in brute(R, S, matches, seconds(9, 9))]
    assert json.loads((tmp_path / "told.json").read_text()) == expected
