"""What is special to ``local[N]``: attempts on the same workers, and devices that these lease."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from eddyline.spark.java import find_java
from tests.spark.local_job import R, S
from tests.spark.streams import brute, counted, seconds


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    find_java()
    # Leases are kept for all of the user's processes, so these devices have names of their own.
    devices = " ".join(f"reference#{uuid.uuid4().hex}" for _ in range(2))
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.local_job", str(folder)],
        env={**os.environ, "EDDYLINE_FPGAS": devices}, cwd=Path(__file__).parents[2],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads((folder / "told.json").read_text()) | {"counts": counted(folder / "metrics")}


@pytest.fixture(scope="module")
def expected():
    matches = R.x[:, None] == S.x[None, :]
    return [list(pair) for pair in brute(R, S, matches, seconds(9, 9))]


def test_a_second_attempt_finds_units_ahead_of_the_state(told, expected):
    """The first one has given its units back with marks that never became those of the state."""
    assert told["retried"] == expected
    assert told["counts"]["retry"] >= 1
    assert told["counts"]["stale"] >= 1


def test_workers_lease_devices_while_they_join(told, expected):
    """As many tasks as devices; the workers that had them still wait for more when tables come."""
    assert told["streams"] == expected
    assert told["between"] == []
    assert told["tables"] == expected
