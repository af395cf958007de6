"""Executors with a device each, by Spark's resource scheduling, also when one is killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.spark.java import find_java
from tests.host.test_serve import serving
from tests.spark.streams import Rows, brute, seconds

DEVICE = "sim:splitjoin?cores=2&window=128"


@pytest.mark.slow
def test_every_executor_has_a_device_of_its_own(tmp_path):
    check(tmp_path, [f"{DEVICE}#{number}" for number in range(2)])


@pytest.mark.slow
def test_executors_share_the_device_of_one_process(tmp_path):
    with serving(tmp_path / "socket", f"{DEVICE}#{tmp_path.name}") as (_, line):
        assert line.startswith("serving")
        check(tmp_path, [f"unix:{tmp_path}/socket#{number}" for number in range(2)])


def check(tmp_path, devices):
    find_java()
    environment = {**os.environ, "EDDYLINE_FPGAS": " ".join(devices)}
    told = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_job", str(tmp_path)],
        env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    found = json.loads((tmp_path / "told.json").read_text())
    assert devices_of(found["addresses"]) == [(one,) for one in devices]
    assert devices_of(found["addresses_again"]) == [(one,) for one in devices]
    assert found["killed"] in {executor for _, executor in found["addresses"]}
    assert found["killed"] not in {executor for _, executor in found["addresses_again"]}
    r, s = Rows.random(1, 100), Rows.random(2, 100)
    matches = r.x[:, None] == s.x[None, :]
    expected = [list(pair) for pair in brute(r, s, matches, seconds(9, 9))]
    assert found["pairs"] == found["pairs_again"] == expected


def devices_of(addresses):
    """Return the devices of each executor."""
    by_executor = {executor: tuple(some) for some, executor in addresses}
    assert all(tuple(some) == by_executor[executor] for some, executor in addresses)
    return sorted(by_executor.values())
