"""The same calls through Spark Connect, whose client has no JVM to reach into."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from eddyline.spark.java import find_java
from tests.spark.connect_client import R, S
from tests.spark.streams import band, brute, seconds, unlike_before


def test_a_connect_client_has_the_same_joins(tmp_path):
    find_java()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_TESTING"] = "1"  # any free port, where the default may be taken
    told = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", str(tmp_path)],
        capture_output=True, text=True, env=environment, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    found = json.loads(told.stdout.splitlines()[-1])
    near = brute(R, S, band(R, S, 2), seconds(3, 3))
    in_time = [pair for pair in near if pair[0] != 199]
    late = (f"name {R.x[-1] % 7}", None, "r")
    passed = min(R.t.max(), S.t.max()) - 5 * 10**6
    names = {  # results without late rows until the watermark, or all
        until: sorted(name[:2] for name in unlike_before(R, S, some, 2**62, until=until))
        for until, some in ((np.inf, near), (passed, in_time))
    }
    expected = {
        "client": ["pyspark.sql.connect.dataframe"],
        "tables": near,
        "streams": sorted([*((*two, None) for two in names[passed]), late], key=repr),
        "static": brute(R, S, band(R, S, 2), (2**62, 2**62)),
        "distinct tables": names[np.inf],
    }
    assert len(in_time) < len(near)
    assert found == json.loads(json.dumps(expected))  # which knows no tuples


def test_a_client_that_cannot_start_spark_has_the_same_calls():
    """PySpark takes this setting for an installation that is a client only, without its core."""
    code = """
import warnings
warnings.filterwarnings("ignore")
from eddyline.spark import join_with, session, stream_join
from eddyline.errors import MachineError
try:
    session()
except MachineError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**os.environ, "SPARK_SKIP_CONNECT_COMPAT_TESTS": "1"},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    assert told.stdout.startswith("this PySpark starts no Spark, it is a client of Spark Connect")
