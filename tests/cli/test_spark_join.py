"""``eddyline spark-join`` as a person runs it."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.cli.interrupts import Interrupts
from eddyline.cli.progress import grouped
from eddyline.cli.spark_join import _Counted
from tests.spark.streams import Rows, band, brute, seconds

WORKS = {
    False: r"Spark works on \d+ stages, \d+ of \d+ tasks done",
    True: r"batch \d+  [\d ]+ rows  [\d ]+ rows/s",
}
pytestmark = pytest.mark.xdist_group("spark")
R, S = Rows.random(1, 200), Rows.random(2, 200)

STREAM = ["-o", "x.parquet", "--on", "r.x < s.x", "--stream", "--checkpoint", "state"]
COMMAND = [sys.executable, "-m", "eddyline.cli.main", "spark-join"]


def run(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True)


def run_on_terminal(*args: str) -> tuple[int, str]:
    """Return the exit code and what was shown."""
    mine, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen([*COMMAND, *args], stderr=theirs) as running:
        os.close(theirs)
        try:
            while part := os.read(mine, 4096):
                shown += part
        except OSError:  # how Linux says that nobody has it open any more
            pass
    os.close(mine)
    return running.returncode, shown.decode()


@pytest.fixture
def folders(tmp_path):
    R.write(tmp_path / "r", 2)
    S.write(tmp_path / "s", 2)
    return tmp_path


@pytest.mark.parametrize("stream", [False, True])
def test_folders_are_joined(folders, stream):
    """On a terminal, which is shown how far it is."""
    out = folders / "out.parquet"
    options = ["--stream", "--checkpoint", str(folders / "state"), "--lateness", "60s"]
    options += ["--late", "late"]
    if stream:  # rows without a time are late
        untimed = R.table().slice(0, 2)
        times = pa.nulls(2, untimed.schema.field("t").type)
        pq.write_table(untimed.set_column(1, "t", times), folders / "r" / "late.parquet")
    code, shown = run_on_terminal(
        str(folders / "r"), str(folders / "s"), "--on", "abs(r.x - s.x) <= 2", "--time", "t",
        "--window", "time:3s", "--select", "r.n AS r, s.n AS s", "-o", str(out),
        *(options if stream else []),
    )  # fmt: skip
    assert code == 0, shown
    expected = brute(R, S, band(R, S, 2), seconds(3, 3))
    tables = [pq.read_table(name) for name in out.glob("*.parquet")]
    rows = pa.concat_tables(tables).to_pylist()
    late = [row for row in rows if row.pop("late", None) == "r"]
    assert sorted((row["r"], row["s"]) for row in rows if row not in late) == expected
    assert late == ([{"r": 0, "s": None}, {"r": 1, "s": None}] if stream else [])
    *redrawn, last = shown.split("\r\033[K")
    told = " and 2 late rows in all" if stream else ""
    assert f"{grouped(len(expected))} pairs{told} in {out}" in last
    assert "starting Spark" in redrawn
    assert any(re.fullmatch(WORKS[stream], line) for line in redrawn), shown


def pairs_in(out: Path) -> list[tuple]:
    """Return the pairs in the files that Spark has written, and holds to be written."""
    rows = pq.read_table(out).to_pylist()
    return sorted((row["r"], row["s"]) for row in rows)


def stream_of(folders: Path, *options: str, on: str = "abs(r.x - s.x) <= 2") -> list[str]:
    return [
        str(folders / "r"), str(folders / "s"), "--on", on, "--time", "t", "--window", "time:3s",
        "--select", "r.n AS r, s.n AS s", "--lateness", "60s", "-o", str(folders / "out.parquet"),
        "--stream", "--checkpoint", str(folders / "state"), *options,
    ]  # fmt: skip


def streamed(folders: Path, *options: str, **on: str) -> subprocess.CompletedProcess:
    return run(*stream_of(folders, *options, **on))


def test_a_batch_has_as_many_files_as_are_asked_for(folders):
    told = streamed(folders, "--files-per-trigger", "1")
    assert told.returncode == 0, told.stderr
    logged = [
        (folders / "state" / "sources" / side / batch).read_text().splitlines()[1:]
        for side in "01"
        for batch in "01"
    ]
    assert [len(files) for files in logged] == [1] * 4
    assert pairs_in(folders / "out.parquet") == brute(R, S, band(R, S, 2), seconds(3, 3))


def test_rows_of_all_batches_are_counted():
    """Spark tells of the last 100; off a terminal, nobody else looks before the end."""

    class Query:
        done = 0
        lastProgress = None

        @property
        def recentProgress(self):
            last = range(max(self.done - 100, 0), self.done)
            return [SimpleNamespace(batchId=one, numInputRows=3) for one in last]

        def awaitTermination(self, timeout=None):
            self.done = min(self.done + (60 if timeout else 250), 250)
            return self.done == 250

    counted = _Counted(Query())
    counted.wait(Interrupts())
    assert counted.rows == 3 * 250


def test_units_may_change_between_runs(tmp_path):
    for number, part in enumerate((slice(100), slice(100, None))):
        for name, rows in (("r", R), ("s", S)):
            rows.at(part).write(tmp_path / name, 1, first=number)
        units = ["--units", "3", "--draining", "4,8/2"] if number else ["--units", "4"]
        told = streamed(tmp_path, *units, on="r.x = s.x")
        assert told.returncode == 0, told.stderr
        assert "200 rows read now, " in told.stderr
    expected = brute(R, S, R.x[:, None] == S.x[None, :], seconds(3, 3))
    assert f"{len(expected)} pairs in all in {tmp_path}/out.parquet" in told.stderr
    assert pairs_in(tmp_path / "out.parquet") == expected


def test_tables_of_text_are_joined(tmp_path):
    """Without results that equal another one: a row of R counts by its value only."""
    for name, rows in (("r", R), ("s", S)):
        lines = [f"{n},{x}" for n, x in zip(rows.n.tolist(), rows.x.tolist(), strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["n,x", *lines]))
    told = run(
        str(tmp_path / "r.csv"), str(tmp_path / "s.csv"), "--on", "r.x = s.x",
        "--window", "unbounded", "--select", "r.x AS r, s.n AS s", "-o", str(tmp_path / "out.csv"),
        "--distinct",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    files = (tmp_path / "out.csv").glob("*.csv")
    lines = [line for name in files for line in name.read_text().split() if line != "r,s"]
    expected = sorted((x, n) for x, n in zip(S.x.tolist(), S.n.tolist(), strict=True) if x in R.x)
    assert sorted(tuple(map(int, line.split(","))) for line in lines) == expected
    assert "ERROR" not in told.stderr
    assert "\r" not in told.stderr


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["-o", "x.parquet", "--on", "r.x < s.x", "--follow"], 2, "add --stream"),
        (["-o", "x.parquet", "--on", "r.x < s.x", "--late", "late"], 2, "add --stream"),
        (["-o", "x.parquet", "--on", "r.x < s.x", "--files-per-trigger", "1"], 2, "add --stream"),
        (["-o", "x.parquet", "--on", "r.x < s.x", "--draining", "4"], 2, "add --stream"),
        ([*STREAM, "--draining", "4,8:2"], 2, "'8:2' is no number of units: write 4,8 or 8/2"),
        (["-o", "x.txt", "--on", "r.x < s.x"], 2, "must end in one of"),
        (["-o", "x.parquet", "--on", "r.x < s.x", "--stream"], 2, "needs --checkpoint"),
        (["-o", "x.parquet", "--on", "r.x < s.x", "--r", "more"], 2, "into its folder"),
        (["-o", "x.parquet", "--on", "r.x < s.x", "--types", "r.x=int8"], 2, "reads the types"),
    ],
)
def test_bad_options_are_told_before_spark_starts(tmp_path, args, code, says):
    told = run(str(tmp_path), str(tmp_path), *args)
    assert told.returncode == code
    assert says in told.stderr


@pytest.mark.slow
def test_a_stream_that_is_followed_is_stopped_and_goes_on(tmp_path):
    halves = slice(100), slice(100, None)

    def arrive(number: int) -> None:
        for name, rows in (("r", R), ("s", S)):
            rows.at(halves[number]).write(tmp_path / name, 1, first=number)

    arrive(0)
    command = [*COMMAND, *stream_of(tmp_path, "--follow")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        while not (tmp_path / "state" / "commits" / "0").exists():
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        told = running.stderr.read()
    assert running.returncode == 130, told
    assert "200 rows read now" in told
    assert "Traceback" not in told
    arrive(1)
    done = streamed(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "200 rows read now" in done.stderr
    assert pairs_in(tmp_path / "out.parquet") == brute(R, S, band(R, S, 2), seconds(3, 3))
