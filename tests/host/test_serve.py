"""A device in a process of its own: same pairs, limits on all that is said to it, one owner."""

import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.api import make_query
from eddyline.device.discovery import open_device
from eddyline.errors import DeviceError
from eddyline.serve.wire import MOST, MOST_SHARED, Channel, WireError

BAND = "abs(r.x - s.x) <= 2"


@contextmanager
def serving(path, device="reference", *options):
    command = [sys.executable, "-m", "eddyline.cli.main", "serve", device, "--socket", str(path)]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        yield process, line + ("" if line.startswith("serving") else process.stderr.read())
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "s"
    with serving(path) as (_, line):
        assert line == f"serving reference at {path}\n"
        yield path


def table(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"t": np.sort(rng.integers(0, 300, 80)), "x": rng.integers(0, 40, 80)})


def pairs(device: str) -> list[tuple]:
    reader = eddyline.join(
        table(1), table(2), BAND, window="time:30", time="t", order="inner", device=device
    )
    return list(zip(*reader.read_all().to_pydict().values(), strict=True))


def test_a_served_device_gives_what_it_gives_here(served):
    found = pairs(f"unix:{served}")
    assert found == pairs("reference")
    assert found


def test_a_server_outlives_the_files_that_it_may_have_open(tmp_path):
    with serving(tmp_path / "s") as (process, _):
        most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        files = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd"))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (files + 2, most[1]))
        connections = [connected(tmp_path / "s") for _ in range(8)]
        assert "Too many open files" in process.stderr.readline()
        for connection in connections:
            connection.close()
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, most)
        assert pairs(f"unix:{tmp_path}/s") == pairs("reference")


def connected(path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(str(path))
    return connection


def refused(connection: socket.socket) -> str:
    """Return what the server says before it ends the session."""
    channel = Channel(connection)
    told, _ = channel.receive()
    with pytest.raises((EOFError, ConnectionError)):
        channel.receive()
    channel.close()
    return told["error"]


def framed(text: str, *, length: int | None = None) -> bytes:
    return struct.pack("!I", len(text) if length is None else length) + text.encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (framed("", length=MOST + 1), f"a message of {MOST + 1} bytes: at most {MOST}"),
        (framed("what"), "that is no message"),
        (framed("[]"), "that is no message"),
        (framed('{"sizes": [-1]}'), "no numbers of bytes"),
        (framed('{"sizes": [true]}'), "no numbers of bytes"),
        (framed('{"sizes": [2000000000]}'), f"arrays of 2000000000 bytes: at most {MOST_SHARED}"),
        (framed('{"sizes": [8]}'), "no memory came with them"),
        (framed('{"do": "push", "sizes": []}'), "'push' comes before a plan"),
        (framed('{"do": "configure", "sizes": []}'), "that is no plan"),
    ],
)
def test_what_is_no_message_or_too_large_ends_the_session(served, data, says):
    connection = connected(served)
    connection.sendall(data)
    assert says in refused(connection)
    open_device(f"unix:{served}").__enter__().__exit__(None, None, None)  # the server goes on


@pytest.mark.parametrize(("size", "says"), [(8, "is not sealed"), (0, "is not sealed")])
def test_memory_that_could_change_is_not_read(served, size, says):
    connection = connected(served)
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    text = b'{"do": "push", "sizes": [8]}'
    socket.send_fds(connection, [struct.pack("!I", len(text)) + text], [fd])
    os.close(fd)
    assert says in refused(connection)


def test_a_message_too_large_is_not_sent():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs, pytest.raises(WireError, match="at most"):
        Channel(ours).send({"text": "x" * MOST})


def test_a_client_that_is_gone_leaves_the_server_alive(served):
    for data in (b"", b"\0\0", struct.pack("!I", 100) + b"{"):
        connection = connected(served)
        connection.sendall(data)
        connection.close()
    assert pairs(f"unix:{served}")


def test_a_plan_that_the_device_refuses_is_refused_with_its_reason(tmp_path):
    with serving(tmp_path / "s", "sim:splitjoin?cores=2&window=64") as (_, line):
        assert line.startswith("serving")
        with pytest.raises(DeviceError, match="window"):
            eddyline.join(
                table(1), table(2), BAND, window="rows:1000", device=f"unix:{tmp_path}/s"
            ).read_all()


def test_a_server_that_is_killed_is_an_error_and_can_be_replaced(tmp_path):
    path = tmp_path / "s"
    with serving(path) as (process, _):
        device = open_device(f"unix:{path}").__enter__()
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(DeviceError, match="has ended: start it again"):
            device.counters()
        device.__exit__(None, None, None)
    assert path.exists()  # nobody was left to remove it
    with pytest.raises(DeviceError, match="nobody serves a device at"):
        pairs(f"unix:{path}")
    with serving(path) as (process, line):
        assert line.startswith("serving")
        assert pairs(f"unix:{path}") == pairs("reference")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not path.exists()


def test_one_owner_per_socket_and_device(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    device = "sim:splitjoin?cores=2&window=64#7"
    with serving(tmp_path / "s", device) as (process, line):
        assert line.startswith("serving")
        with serving(tmp_path / "s", "reference") as (second, told):
            assert second.wait(60) == 1
            assert f"process {process.pid} serves at {tmp_path}/s already" in told
        with serving(tmp_path / "t", device) as (third, told):
            assert third.wait(60) == 1
            assert f"{device} by process {process.pid}" in told
    with serving(tmp_path / "t", device) as (_, line):
        assert line.startswith("serving")  # a lease ends with its process


def test_tuples_that_do_not_fit_the_plan_end_the_session(served):
    channel = Channel(connected(served))
    channel.send({"do": "configure", "plan": plan().to_json()})
    assert "error" not in channel.receive()[0]
    channel.send({"do": "push"}, [np.zeros(3, np.uint8), np.zeros(7, np.uint8), np.zeros(0)])
    assert "no tuples of the plan" in channel.receive()[0]["error"]
    channel.close()


def plan():
    schema = table(1).schema
    return make_query(schema, schema, BAND, window="time:30", time="t").plan


def test_sessions_are_limited(tmp_path):
    with serving(tmp_path / "s", "reference", "--sessions", "1") as (_, line):
        assert line.startswith("serving")
        with open_device(f"unix:{tmp_path}/s") as first:
            first.configure(plan())
            with pytest.raises(DeviceError, match="all 1 sessions of reference are in use"):
                pairs(f"unix:{tmp_path}/s")
            first.configure(plan())
        for _ in range(600):  # until the server has noticed
            try:
                assert pairs(f"unix:{tmp_path}/s")
                break
            except DeviceError:
                time.sleep(0.1)
        else:
            pytest.fail("the session was not given back")


def test_only_the_user_can_open_the_socket(served):
    assert os.stat(served).st_mode & 0o077 == 0
