"""Tables on Spark are measured against the better of its own ways, with the same pairs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = """
from bench import spark
spark.ROWS, spark.WINDOW, spark.WARMING, spark.RUNS = 1 << 12, 1 << 10, 0, 1
print(*spark.measure(), sep="\\n")
"""


@pytest.mark.slow
def test_the_faster_of_sparks_own_ways_is_its_best():
    told = subprocess.run(
        [sys.executable, "-c", COMMAND],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    files, rows = told.stdout.splitlines()
    assert "workers read files" in files
    assert "Spark reads them" in rows
    ways = {re.search(r"binned rewrite \((\w+)\)$", line)[1] for line in (files, rows)}
    assert len(ways) == 1
    assert ways < {"broadcast", "shuffle_hash"}
