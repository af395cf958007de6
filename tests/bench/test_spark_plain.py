"""Spark's plain band query is given up when its budget is spent, and else has the same pairs."""

import pytest

from tests.bench.own_process import lines_of

COMMAND = """
from bench import spark_plain
spark_plain.PARTS = 8
for rows, budget in ((1 << 16, 0), (1 << 13, 10**6)):
    print(*spark_plain.measure(rows, window=1 << 11, budget=budget), sep="\\n")
"""


@pytest.mark.slow
def test_a_budget_ends_the_plain_query():
    many, short, few, whole = lines_of(COMMAND)
    assert "65,536 rows a side" in many
    assert "8,192 rows a side" in few
    assert "did not finish" in short
    assert "of the rows of R had met S" in short
    assert "CPU-seconds" in whole
    assert "not finish" not in whole
