"""Leases of devices: one owner each, for as long as it lives."""

import json
import os
import subprocess
import sys
import threading

import pytest

from eddyline.device.lease import lease, leased, release
from eddyline.errors import DeviceError


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EDDYLINE_FPGAS", raising=False)


@pytest.fixture
def sleeper():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_device_has_one_owner():
    assert lease(["a", "b"], owner=os.getpid()) == ["a"]
    assert lease(["a", "b"], owner=os.getpid()) == ["b"]
    with pytest.raises(DeviceError, match=f"0 of 2 are free.*a by process {os.getpid()}"):
        lease(["a", "b"], owner=os.getpid())


def test_a_lease_ends_with_its_owner(sleeper):
    assert lease(["a"], owner=sleeper.pid) == ["a"]
    assert leased() == {"a": sleeper.pid}
    sleeper.kill()  # not even waited for: a zombie has no devices
    for _ in range(1000):
        if not leased():
            break
        os.sched_yield()
    sleeper.wait()
    assert lease(["a"], owner=os.getpid()) == ["a"]


def test_a_lease_may_end_before_its_owner(sleeper):
    assert lease(["a", "b"], owner=os.getpid(), amount=2) == ["a", "b"]
    release("a", owner=sleeper.pid)  # not theirs
    assert leased() == {"a": os.getpid(), "b": os.getpid()}
    release("a", owner=os.getpid())
    assert lease(["a", "b"], owner=sleeper.pid) == ["a"]


def test_who_has_patience_gets_what_another_gives_back(sleeper):
    assert lease(["a"], owner=sleeper.pid) == ["a"]
    giver = threading.Timer(0.1, release, ["a"], {"owner": sleeper.pid})
    giver.start()
    assert lease(["a"], owner=os.getpid(), patience=60) == ["a"]
    giver.join()
    with pytest.raises(DeviceError, match="0 of 1 are free"):
        lease(["a"], owner=os.getpid(), patience=0.01)


def test_nothing_is_leased_when_too_few_are_free():
    with pytest.raises(DeviceError, match="2 devices are asked for and 1 of 1 are free"):
        lease(["a"], owner=os.getpid(), amount=2)
    assert lease(["a"], owner=os.getpid()) == ["a"]


def test_a_file_that_was_cut_short_is_begun_anew(tmp_path):
    lease(["a"], owner=os.getpid())
    (tmp_path / "eddyline" / "leases" / "devices.json").write_text('{"a": [1')
    assert lease(["a"], owner=os.getpid()) == ["a"]


def test_many_at_once_get_different_ones(sleeper):
    environment = {**os.environ, "EDDYLINE_FPGAS": " ".join(f"d{n}" for n in range(4))}
    command = [sys.executable, "-m", "eddyline.cli.main", "fpga-discovery"]
    command += ["--owner", str(sleeper.pid)]
    many = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = [json.loads(one.communicate()[0]) for one in many]
    assert {one["name"] for one in told} == {"fpga"}
    assert sorted(address for one in told for address in one["addresses"]) == [
        "d0",
        "d1",
        "d2",
        "d3",
    ]


def test_without_addresses_the_error_says_where_they_come_from():
    told = subprocess.run(
        [sys.executable, "-m", "eddyline.cli.main", "fpga-discovery"],
        capture_output=True,
        text=True,
    )
    assert told.returncode == 1
    assert "name them in EDDYLINE_FPGAS" in told.stderr
