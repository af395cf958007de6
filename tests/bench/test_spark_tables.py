"""Tables on Spark are measured against the better of its own ways, with the same pairs."""

import re

import pytest

from tests.bench.own_process import lines_of

COMMAND = """
from bench import spark
spark.ROWS, spark.WINDOW, spark.WARMING, spark.RUNS = 1 << 12, 1 << 10, 0, 1
print(*spark.measure(), sep="\\n")
"""


@pytest.mark.slow
def test_the_faster_of_sparks_own_ways_is_its_best():
    files, rows = lines_of(COMMAND)
    assert "workers read files" in files
    assert "Spark reads them" in rows
    ways = {re.search(r"binned rewrite \((\w+)\)$", line)[1] for line in (files, rows)}
    assert len(ways) == 1
    assert ways < {"broadcast", "shuffle_hash"}
