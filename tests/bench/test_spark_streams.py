"""The benchmark of streams on Spark runs, and does not measure joins that differ."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = """
from bench import spark_streams
spark_streams.WARMING = [256] * 2
spark_streams.COMPARED = 2
spark_streams.TRIGGERS = {512: 1}
spark_streams.ROUNDS = 1
print(*spark_streams.measure(), sep="\\n")
spark_streams.JOINS += ("answers",)
print(*spark_streams.measure(), sep="\\n")
"""
WAYS = [
    "ours", "rows", "own", "empty", "answers", "empty rows", "answers rows", "sparse",
    "sparse empty", "sparse rows", "rowwise", "shuffled",
]  # fmt: skip


@pytest.mark.slow
def test_every_way_is_measured_and_pairs_are_compared(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", COMMAND],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    head, *lines = told.stdout.splitlines()
    assert head == "1,024 rows per micro-batch, 1 of them, after 3", told.stderr[-3000:]
    assert [line.strip().partition(":")[0] for line in lines[: len(WAYS)]] == WAYS
    assert all("CPU-seconds" in line for line in lines[: len(WAYS)])
    assert [line.split()[0] for line in lines[len(WAYS) :]] == ["workers", "Spark", "one", "the"]
    # The second time, with a device that answers without joining among those that join:
    assert told.returncode == 1
    assert "AssertionError: pairs differ" in told.stderr
