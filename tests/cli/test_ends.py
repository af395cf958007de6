"""Ends that come from outside: a reader that leaves, a full disk, Ctrl-C. Nothing is lost."""

import fcntl
import os
import resource
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from eddyline.io.read import open_source
from tests.cli.shell import EDDYLINE, eddyline, write

MACHINE, DATA = 3, 4


@pytest.mark.parametrize("command", [["devices"], ["explain"], ["join", "--json"]])
def test_a_reader_that_leaves_at_once(files, tmp_path, command):
    arguments = [] if command == ["devices"] else [*files, "--on", "TRUE"]
    if "--json" in command:
        arguments += ["-o", str(tmp_path / "o.csv")]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*EDDYLINE, *command, *arguments], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.returncode == 0
    assert b"error" not in done.stderr.lower()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_streams_that_were_never_open(files, tmp_path, closed):
    stdin = "-" if closed == "<&-" else files[0]
    out = tmp_path / "o.csv"
    line = f"{' '.join(EDDYLINE)} join {stdin} {files[1]} --on TRUE -o {out} {closed}"
    done = subprocess.run(["bash", "-c", line], capture_output=True)
    assert done.returncode == (DATA if closed == "<&-" else 0)
    assert b"internal error" not in done.stderr
    if closed == "<&-":
        assert b"stdin is closed" in done.stderr


def test_closed_output_pipe(tmp_path):
    r = write(tmp_path / "r.parquet", x=list(range(300_000)))
    command = [*EDDYLINE, "join", r, r, "--on", "r.x = s.x", "--window", "rows:10"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == b'"r_x","s_x"\n'
        running.stdout.close()
        said = running.stderr.read().decode()
        assert running.wait(60) == 0
    assert "the reader of the output has gone" in said
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


def test_full_disk_on_stdout(files):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*EDDYLINE, "join", *files, "--on", "r.x = s.a"], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == MACHINE
    assert b"no space left for stdout" in done.stderr
    assert b"Traceback" not in done.stderr


def test_full_disk_in_a_file(files, tmp_path):
    (tmp_path / "o.parquet").symlink_to("/dev/full")
    done = eddyline("join", *files, "--on", "r.x = s.a", "-o", tmp_path / "o.parquet")
    assert done.returncode == MACHINE
    assert "no space left for" in done.stderr


def test_a_file_size_limit(files, tmp_path):
    r = write(tmp_path / "r.parquet", x=list(range(300_000)))
    done = subprocess.run(
        [
            *EDDYLINE,
            "join",
            r,
            r,
            "--on",
            "r.x = s.x",
            "--window",
            "rows:10",
            "-o",
            tmp_path / "o.csv",
        ],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
        capture_output=True,
    )
    assert done.returncode == MACHINE
    assert b"cannot write" in done.stderr


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_interrupted_work_is_written_and_valid(tmp_path, suffix):
    reading, writing = os.pipe()
    s = write(tmp_path / "s.parquet", a=list(range(200_000)))
    out = tmp_path / f"out.{suffix}"
    command = [*EDDYLINE, "join", "-", s, "--on", "r.x = s.a", "--window", "unbounded", "-o", out]
    with subprocess.Popen(command, stdin=reading, stderr=subprocess.PIPE) as running:
        os.write(writing, b"x\n" + b"".join(b"%d\n" % i for i in range(5000)))
        # The stream stays open: the join has done what it can and waits.
        _wait_until_drained(reading, running.pid)
        running.send_signal(signal.SIGINT)
        said = running.stderr.read().decode()
        assert running.wait(60) == 130
    os.close(reading)
    os.close(writing)
    assert "interrupted, what was joined is written" in said
    assert "Traceback" not in said
    assert sum(batch.num_rows for batch in open_source(str(out))) == 5000


def _wait_until_drained(pipe: int, pid: int) -> None:
    """Wait until the process has read the pipe and used no processor time for a second."""
    quiet, before = 0, -1
    deadline = time.monotonic() + 100
    while quiet < 10 and time.monotonic() < deadline:
        waiting = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
        ticks = sum(
            map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])
        )
        quiet = quiet + 1 if ticks == before and not waiting else 0
        before = ticks
        time.sleep(0.1)
