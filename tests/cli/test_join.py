"""``eddyline join``: what it reads, what it writes, what it says."""

import json
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.cli.main import main
from eddyline.io.read import open_source
from eddyline.io.write import open_sink
from tests.cli.shell import EDDYLINE, eddyline, write

R = pa.table({"x": [1, 2, 3], "y": [1.5, None, 3.5], "name": ["a", 'q"uote', "c\nd"]})
S = pa.table({"a": [2, 3, 4], "flag": [True, False, None]})
JOINED = [
    {"x": 2, "y": None, "name": 'q"uote', "a": 2, "flag": True},
    {"x": 3, "y": 3.5, "name": "c\nd", "a": 3, "flag": False},
]


def save(table: pa.Table, path) -> str:
    with open_sink(str(path), table.schema) as sink:
        for batch in table.to_batches():
            sink.write(batch)
    return str(path)


def load(path) -> list[dict]:
    return [row for batch in open_source(str(path)) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "suffix", ["parquet", "csv", "ndjson", "jsonl", "arrow", "feather", "arrows"]
)
def test_every_format_goes_in_and_comes_out(tmp_path, suffix):
    r, s = save(R, tmp_path / f"r.{suffix}"), save(S, tmp_path / f"s.{suffix}")
    out = tmp_path / f"out.{suffix}"
    assert main(["join", r, s, "--on", "r.x = s.a", "-o", str(out)]) == 0
    assert load(out) == JOINED


def test_arrow_files_of_polars(tmp_path):
    """They have views of strings, and categories."""
    r = tmp_path / "r.arrow"
    frame = pl.DataFrame({"x": [0, 1, 2], "n": ["a", "b", "c"]})
    frame.with_columns(pl.col("n").cast(pl.Categorical).alias("c")).write_ipc(r)
    s = save(S, tmp_path / "s.parquet")
    for out in (tmp_path / "out.csv", tmp_path / "out.parquet"):
        assert main(["join", str(r), s, "--on", "r.x = s.a", "-o", str(out)]) == 0
        assert [(row["x"], row["n"], row["c"]) for row in load(out)] == [(2, "c", "c")]


def test_ndjson_with_a_byte_order_mark_and_dates(tmp_path):
    s = save(S, tmp_path / "s.parquet")
    text = b'\xef\xbb\xbf{"x": 2, "d": "2024-01-01"}\n{"x": 3, "d": "2024-01-02"}\n'
    query = ["--on", "r.x = s.a AND r.d > DATE '2024-01-01'", "--types", "r.d=date"]
    done = eddyline("join", "-", s, *query, "--select", "r.x, r.d", stdin=text)
    assert done.stdout == '"x","d"\n3,2024-01-02\n'


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_special_values_survive_every_text_format(tmp_path, suffix):
    rows = pa.table(
        {
            "x": [1, 2, 3, 4],
            "f": [float("nan"), float("inf"), -0.0, None],
            "t": ["", None, "null", 'a "quote", and\r\nlines'],
        }
    )
    path = save(rows, tmp_path / f"r.{suffix}")
    out = tmp_path / f"out.{suffix}"
    assert main(["join", path, path, "--on", "r.x = s.x", "--select", "r.*", "-o", str(out)]) == 0
    found = pa.Table.from_pylist(load(out))
    assert [str(cell) for cell in found["r_f"].to_pylist()] == ["nan", "inf", "-0.0", "None"]
    assert found.column_names == ["r_x", "r_f", "r_t"]
    assert found["r_t"].to_pylist() == rows["t"].to_pylist()


def test_quotes_within_a_cell_are_letters(tmp_path):
    rows = ['1,"quoted, with ""two"" quotes"', '2,5" pipe', "3,plain"] + [
        f"{i},x" for i in range(4, 9)
    ]
    (tmp_path / "r.csv").write_text("x,name\n" + "\n".join(rows) + "\n")
    s = write(tmp_path / "s.parquet", a=[1, 2, 3, 4])
    out = tmp_path / "o.ndjson"
    assert main(["join", str(tmp_path / "r.csv"), str(s), "--on", "r.x = s.a", "-o", str(out)]) == 0
    assert [row["name"] for row in load(out)] == [
        'quoted, with "two" quotes',
        '5" pipe',
        "plain",
        "x",
    ]


def test_rows_that_straddle_blocks(tmp_path, monkeypatch):
    from eddyline.io import text

    monkeypatch.setattr(text, "BLOCK", 7)
    rows = [(i, f'cell "{i}",\nsecond line' if i % 3 else "") for i in range(200)]
    table = pa.table({"x": [i for i, _ in rows], "t": [t for _, t in rows]})
    path = save(table, tmp_path / "r.csv")
    assert load(path) == table.to_pylist()


def test_an_empty_line_is_a_null_where_there_is_one_column(tmp_path):
    table = pa.table({"one": [1, None, 3]})
    path = save(table, tmp_path / "one.csv")
    assert load(path) == table.to_pylist()


def test_a_pipe_may_begin_with_nothing_but_its_header(tmp_path):
    s = write(tmp_path / "s.parquet", a=[1, 2])
    command = [*EDDYLINE, "join", "-", s, "--on", "r.x + 1 = s.a"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        for part in (b'\n"x"', b',"with\n', b'newline"\n', b"1,2\n"):
            running.stdin.write(part)
            running.stdin.flush()
            time.sleep(0.05)
        running.stdin.close()
        assert running.stdout.read() == b'"x","with\nnewline","a"\n1,2,2\n'


def test_further_files_take_the_types_of_the_first(tmp_path, capsys):
    (tmp_path / "r0.csv").write_text("x,y\n1.5,a\n")
    (tmp_path / "r1.csv").write_text("x,y\n2,7\n")
    (tmp_path / "r2.csv").write_text("x,y\n")
    s = write(tmp_path / "s.parquet", a=[1.5, 2.0, 2.0])
    files = [str(tmp_path / f"r{i}.csv") for i in range(3)]
    out = tmp_path / "o.csv"
    arguments = ["join", files[0], str(s), "--r", files[1], "--r", files[2], "--on", "r.x = s.a"]
    assert main([*arguments, "-o", str(out)]) == 0
    assert sorted(out.read_text().splitlines()[1:]) == ['1.5,"a",1.5', '2,"7",2', '2,"7",2']


def test_nanoseconds_and_far_years_as_json(tmp_path):
    r = tmp_path / "r.parquet"
    far = pa.array([10**15], pa.timestamp("s"))
    pq.write_table(pa.table({"x": [1], "t": pa.array([1], pa.timestamp("ns")), "far": far}), r)
    out = tmp_path / "o.ndjson"
    assert (
        main(
            ["join", str(r), str(r), "--on", "r.x = s.x", "--select", "r.t, r.far", "-o", str(out)]
        )
        == 0
    )
    assert '"t": "1970-01-01 00:00:00.000000001"' in out.read_text()


def test_byte_order_marks_and_windows_line_ends(tmp_path):
    (tmp_path / "r.csv").write_bytes(b"\xef\xbb\xbfx,y\r\n1,a\r\n\r\n2,b")
    (tmp_path / "s.csv").write_bytes(b"a\n2\n1\n")
    done = eddyline("join", "r.csv", "s.csv", "--on", "r.x = s.a", cwd=tmp_path)
    assert sorted(done.stdout.splitlines()[1:]) == ['1,"a",1', '2,"b",2']


def test_stdout_is_csv_and_the_summary_goes_to_stderr(tmp_path):
    r, s = save(R, tmp_path / "r.parquet"), save(S, tmp_path / "s.parquet")
    done = eddyline("join", r, s, "--on", "r.x = s.a", "--select", "r.x, s.flag AS good")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ['"x","good"', "2,true", "3,false"]
    assert "3 rows of R and 3 of S gave 2 pairs on cpu" in done.stderr
    assert "\r" not in done.stderr, "no progress bar where nobody looks"


@pytest.mark.parametrize("format_", ["csv", "ndjson", "arrows"])
def test_stdin_is_recognised(tmp_path, format_):
    r, s = save(R, tmp_path / f"r.{format_}"), save(S, tmp_path / "s.parquet")
    done = eddyline(
        "join", "-", s, "--on", "r.x = s.a", "--select", "x", stdin=Path(r).read_bytes()
    )
    assert done.stdout.splitlines() == ['"x"', "2", "3"]


def test_json_summary(tmp_path):
    r, s = save(R, tmp_path / "r.parquet"), save(S, tmp_path / "s.parquet")
    device = ["--device", "cpu?engine=nested"]
    done = eddyline("join", r, s, "--on", "r.x = s.a", "--json", *device, "-o", tmp_path / "o.csv")
    report = json.loads(done.stdout)
    assert {key: report[key] for key in ("device", "r_rows", "s_rows", "pairs", "late_rows")} == {
        "device": "cpu", "r_rows": 3, "s_rows": 3, "pairs": 2, "late_rows": 0,
    }  # fmt: skip
    assert report["seconds"] > 0
    assert report["rows_per_second"] > 0
    assert report["comparisons"] == 9
    assert "cycles" not in report


def test_nothing_loads_pandas(tmp_path):
    """It takes longer than everything else that a start needs."""
    r, s = save(R, tmp_path / "r.parquet"), save(S, tmp_path / "s.csv")
    line = f"join {r} {s} --on r.x=s.a -o {tmp_path}/out.parquet".split()
    program = (
        f"import sys; from eddyline.cli.main import main; main({line}); "
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
    assert load(tmp_path / "out.parquet") == JOINED


def test_further_physical_streams_and_time(tmp_path):
    r0 = write(tmp_path / "r0.parquet", ts=[1, 4], x=[1, 4])
    r1 = write(tmp_path / "r1.parquet", ts=[2, 3], x=[2, 3])
    s = write(tmp_path / "s.parquet", ts=[1, 2, 3, 9], x=[9, 9, 9, 9])
    out = tmp_path / "out.csv"
    arguments = ["join", r0, s, "--r", r1, "--on", "TRUE", "--time", "ts", "--window", "time:1"]
    arguments += ["--order", "inner", "--select", "r.ts AS r, s.ts AS s, result_time", "-o", out]
    assert main([str(argument) for argument in arguments]) == 0
    found = [tuple(row.values()) for row in load(out)]
    expected = [
        (1, 1, 1),
        (2, 1, 2),
        (1, 2, 2),
        (2, 2, 2),
        (3, 2, 3),
        (2, 3, 3),
        (3, 3, 3),
        (4, 3, 4),
    ]
    assert found == expected


def test_different_windows_per_side(tmp_path):
    r = write(tmp_path / "r.parquet", x=[0] * 6)
    s = write(tmp_path / "s.parquet", a=[0] * 6)
    out = str(tmp_path / "out.parquet")
    options = ["--on", "TRUE", "--window-r", "rows:1", "--window-s", "rows:3", "-o", out]
    assert main(["join", str(r), str(s), *options]) == 0
    # Each S meets the R before it; each R meets up to three S before it.
    assert pq.read_table(out).num_rows == 6 + (0 + 1 + 2 + 3 + 3 + 3)


def test_late_rows_are_counted_reported_and_diverted(tmp_path):
    r = write(tmp_path / "r.parquet", ts=[10, 8, 3, 11], x=[1, 2, 3, 4])
    s = write(tmp_path / "s.parquet", ts=[9, 12], x=[0, 0])
    late = tmp_path / "late.csv"
    done = eddyline(
        "join", r, s, "--on", "TRUE", "--time", "ts", "--window", "time:100", "--lateness", "3",
        "--late-r", late, "--json", "-o", tmp_path / "o.csv",
    )  # fmt: skip
    assert json.loads(done.stdout)["late_rows"] == 1
    assert "1 rows too late" in done.stderr
    assert load(late) == [{"ts": 3, "x": 3}]
    assert json.loads(done.stdout)["pairs"] == 6


def test_a_pipe_gives_results_as_they_happen(tmp_path):
    s = write(tmp_path / "s.parquet", ts=[0, 100], a=[1, 1])
    command = [
        *EDDYLINE,
        "join",
        "-",
        s,
        "--on",
        "r.x = s.a",
        "--time",
        "ts",
        "--window",
        "unbounded",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        running.stdin.write(b"ts,x\n1,1\n2,1\n")
        running.stdin.flush()
        # Row 1 is certain once row 2 is there; the end of the input is not awaited.
        assert running.stdout.readline() == b'"r_ts","x","s_ts","a"\n'
        assert running.stdout.readline() == b"1,1,0,1\n"
        running.stdin.write(b"3,1\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"2,1,0,1\n"
        running.stdin.close()
        rest = running.stdout.read().splitlines()
        assert sorted(rest) == [b"1,1,100,1", b"2,1,100,1", b"3,1,0,1", b"3,1,100,1"]


def test_memory_is_bounded_by_the_windows(tmp_path):
    """Six times the input through the same windows must not need more memory."""
    peaks = {}
    for rows in (100_000, 600_000):
        table = pa.table({"x": range(rows), "pad": ["p" * 100] * rows})
        r, s = (save(table, tmp_path / f"{side}.csv") for side in "rs")
        out = str(tmp_path / "out.csv")
        arguments = ["join", r, s, "--on", "r.x = s.x", "--window", "rows:100", "-o", out]
        # What getrusage calls the peak starts with that of the process that started this one.
        code = (
            "import re; from eddyline.cli.main import main\n"
            f"assert main({arguments!r}) == 0\n"
            "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
        )
        done = subprocess.run([EDDYLINE[0], "-c", code], capture_output=True, text=True, check=True)
        assert f"gave {rows:,} pairs".replace(",", " ") in done.stderr
        peaks[rows] = int(done.stdout) // 1024
    more = 2 * 500_000 * 107 // 2**20
    assert peaks[600_000] - peaks[100_000] < more / 3, f"MiB, for {more} MiB more of text: {peaks}"


def test_a_terminal_sees_progress(tmp_path):
    import os
    import pty

    r = write(tmp_path / "r.parquet", x=list(range(60_000)))
    ours, theirs = pty.openpty()
    out = tmp_path / "o.csv"
    command = [
        *EDDYLINE,
        "join",
        r,
        r,
        "--on",
        "r.x < s.x - 59990",
        "--window",
        "unbounded",
        "--device",
        "cpu?engine=nested",  # slow enough to be seen at work
        "-o",
        out,
    ]
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL) as running:
        os.close(theirs)
        seen = b""
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            try:
                more = os.read(ours, 4096)
            except OSError:
                break
            if not more:
                break
            seen += more
    os.close(ours)
    assert running.returncode == 0
    assert b" rows/s  " in seen
    assert b" matches" in seen
    assert b"[" in seen
    assert b"pairs on cpu" in seen


def test_help_teaches():
    done = eddyline("join", "--help")
    for word in ("rows:N", "time:10s", "--lateness", "exit codes", "eddyline join trades.parquet"):
        assert word in done.stdout
