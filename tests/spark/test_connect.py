"""The same calls through Spark Connect, whose client has no JVM to reach into."""

import json
import os
import subprocess
import sys
from pathlib import Path

from eddyline.spark.java import find_java
from tests.spark.streams import Rows, band, brute, seconds


def test_a_connect_client_has_the_same_joins(tmp_path):
    find_java()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    told = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", str(tmp_path)],
        capture_output=True, text=True, env=environment, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    found = json.loads(told.stdout.splitlines()[-1])
    r, s = Rows.random(1, 200), Rows.random(2, 200)
    expected = [list(pair) for pair in brute(r, s, band(r, s, 2), seconds(3, 3))]
    assert found["client"] == ["pyspark.sql.connect.dataframe"]
    assert found["tables"] == expected
    assert found["streams"] == expected
