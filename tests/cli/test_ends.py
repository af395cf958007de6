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

from eddyline.cli.main import main
from eddyline.device.cpu import CpuDevice
from eddyline.io import write as write_module
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


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("delay", [0.1, 0.5])
def test_interrupted_at_work(tmp_path, suffix, delay):
    """Most of the time goes into writing here, so the signal is likely to hit that."""
    r = write(tmp_path / "r.parquet", x=list(range(400_000)), pad=["p" * 40] * 400_000)
    out = tmp_path / f"out.{suffix}"
    command = [
        *EDDYLINE,
        "join",
        r,
        r,
        "--on",
        "abs(r.x - s.x) <= 60",
        "--window",
        "rows:2000",
        "-o",
        out,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as running:
        while not out.exists() and running.poll() is None:
            time.sleep(0.01)
        time.sleep(delay)
        running.send_signal(signal.SIGINT)
        said = running.stderr.read().decode()
        assert running.wait(60) == 130, said
    rows = sum(batch.num_rows for batch in open_source(str(out)))
    assert f"gave {rows:,} pairs".replace(",", " ") in said


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow", "ndjson"])
def test_a_signal_in_the_middle_of_writing_waits(files, tmp_path, monkeypatch, capsys, suffix):
    out = tmp_path / f"out.{suffix}"
    real = write_module._sink

    def interrupting(*arguments):
        sink = real(*arguments)
        whole = sink.write

        def write_and_interrupt(batch):
            os.kill(os.getpid(), signal.SIGINT)
            whole(batch)
            os.kill(os.getpid(), signal.SIGINT)

        sink.write = write_and_interrupt
        return sink

    monkeypatch.setattr(write_module, "_sink", interrupting)
    before = signal.getsignal(signal.SIGINT)
    assert main(["join", *files, "--on", "r.x = s.a", "-o", str(out)]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert "interrupted, what was joined is written" in capsys.readouterr().err
    monkeypatch.undo()
    assert [row["x"] for batch in open_source(str(out)) for row in batch.to_pylist()] == [1, 2, 3]


def test_a_signal_that_breaks_a_lock_is_still_a_signal(files, tmp_path, monkeypatch, capsys):
    """A condition that Ctrl-C strikes while it waits fails to release its lock (CPython)."""

    def pull(self):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            raise RuntimeError("release unlocked lock") from None

    monkeypatch.setattr(CpuDevice, "pull", pull)
    assert main(["join", *files, "--on", "r.x = s.a", "-o", str(tmp_path / "out.csv")]) == 130
    assert "interrupted, what was joined is written" in capsys.readouterr().err


def test_late_rows_are_not_cut_in_half_either(tmp_path, monkeypatch):
    r = write(tmp_path / "r.parquet", ts=[10, 1, 11, 2], x=[1, 2, 3, 4])
    late = tmp_path / "late.parquet"
    real = write_module._Collected.write

    def interrupted(self, batch):
        os.kill(os.getpid(), signal.SIGINT)
        real(self, batch)

    monkeypatch.setattr(write_module._Collected, "write", interrupted)
    arguments = ["join", r, r, "--on", "TRUE", "--time", "ts", "--lateness", "1", "--late-r", late]
    assert main([str(one) for one in [*arguments, "-o", tmp_path / "o.csv"]]) == 130
    monkeypatch.undo()
    assert [row["x"] for batch in open_source(str(late)) for row in batch.to_pylist()] == [2]


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
