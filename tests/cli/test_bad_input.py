"""What goes wrong is said clearly, with its place and the way out, and nothing is lost."""

import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.cli.main import main
from tests.cli.shell import EDDYLINE, eddyline, write

QUERY, DEVICE, MACHINE, DATA = 2, 1, 3, 4


def fails(capsys, code, *message, arguments):
    assert main([str(one) for one in arguments]) == code
    said = capsys.readouterr().err
    for part in message:
        assert part in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("r.x =", "cannot parse the predicate 'r.x ='"),
        ("r.nam = s.a", "no column 'r.nam'; did you mean r.name?"),
        ("r.x = s.zzz", "no column 's.zzz' (there are: s.a, s.ts)"),
        ("q.x = s.a", "no stream called 'q'"),
        ("ts = s.a", "column 'ts' is ambiguous: write r.ts or s.ts"),
        ("r.name = s.a", "cannot compare r.name (string) with s.a (int64) in 'r.name = s.a'"),
        ("r.x = 'one'", "cannot compare r.x (int64) with the string 'one'"),
        ("r.name < 'b'", "strings compare only with =, <> and IN"),
        ("r.x * 2 = s.a", "'r.x * 2' in 'r.x * 2 = s.a' is not supported"),
        ("r.x", "r.x (int64) is not a condition"),
        ("upper(r.name) = 'A'", "is not supported"),
        ("", "the predicate is empty"),
        ("r.x BETWEEN SYMMETRIC 5 AND 1", "is not supported"),
        ("r.x < 1e99999", "cannot use the number '1e99999'"),
        ("r.ts - s.ts < INTERVAL '1/0' SECOND", "cannot use the number '1/0'"),
        ("r.ts < s.ts - INTERVAL (2 * 3) SECOND", "is not a number of seconds"),
    ],
)
def test_predicates_that_mean_nothing(files, capsys, on, message):
    fails(capsys, QUERY, message, arguments=["join", *files, "--on", on])


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--window", "rows:0"], QUERY, "a window of 0 rows holds nothing"),
        (["--window", "rows:-4"], QUERY, "a window of -4 rows"),
        (["--window", "sometimes"], QUERY, "'sometimes' is not a window: write rows:65536"),
        (["--window", "time:10s"], QUERY, "window time:10s needs a time column"),
        (["--window", "time:10s", "--time", "ts"], QUERY, "is a plain integer: write a number"),
        (["--window", "time:10x", "--time", "ts"], QUERY, "'10x' is not a duration"),
        (
            ["--window", "rows:5000000000"],
            QUERY,
            "10000000000 rows need more than the 4294967296 ids",
        ),
        (["--time", "when"], QUERY, "no time column 'when' in stream r (there are: x, name, ts)"),
        (["--time", "name,a"], QUERY, "time column r.name is string"),
        (["--lateness", "2s"], QUERY, "lateness needs a time column"),
        (["--order", "sorted"], QUERY, "'sorted' is not an order"),
        (["--order", "inner:0"], QUERY, "'inner:0' is not an order"),
        (["--select", "r.x, s.a AS x"], QUERY, "two result columns are called 'x'"),
        (["--select", "r.x + 1"], QUERY, "cannot select 'r.x + 1'"),
        (["--select", "result_time"], QUERY, "result_time needs a time column"),
        (["--device", "borad"], DEVICE, "no device called 'borad' (known: auto, cpu, reference"),
        (
            ["--device", "cpu?cores=4"],
            DEVICE,
            "device 'cpu' has no option 'cores' (it takes: threads, engine, subwindows, workers",
        ),
        (["--device", "cpu?threads=no"], DEVICE, "threads='no' is not a number"),
        (["-o", "result.xlsx"], QUERY, "cannot tell the format of result.xlsx"),
        (["--json"], QUERY, "--json prints its summary on stdout, so the pairs need -o"),
        (["--batch", "0"], QUERY, "a batch of 0 rows"),
        (["--types", "r.x=int32"], QUERY, "r.parquet carries its own types"),
        (
            ["-o", "/no/such/folder/o.csv"],
            MACHINE,
            "cannot write /no/such/folder/o.csv: No such file",
        ),
    ],
)
def test_options_that_mean_nothing(files, capsys, options, code, message):
    fails(capsys, code, message, arguments=["join", *files, "--on", "r.x = s.a", *options])


def test_missing_file(files, capsys):
    fails(
        capsys,
        DATA,
        "no such file: gone.csv",
        arguments=["join", "gone.csv", files[1], "--on", "TRUE"],
    )


def test_a_folder_is_not_a_file(files, tmp_path, capsys):
    folder = tmp_path / "d.csv"
    folder.mkdir()
    fails(
        capsys,
        DATA,
        "cannot open",
        "directory",
        arguments=["join", folder, files[1], "--on", "TRUE"],
    )


def test_truncated_parquet(files, tmp_path, capsys):
    half = tmp_path / "half.parquet"
    half.write_bytes(Path(files[0]).read_bytes()[:-30])
    fails(
        capsys,
        DATA,
        "cannot read",
        "half.parquet",
        arguments=["join", half, files[1], "--on", "TRUE"],
    )


def test_parquet_damaged_in_the_middle_keeps_what_was_joined(tmp_path):
    whole = tmp_path / "r.parquet"
    values = np.random.default_rng(0).integers(0, 2**60, 200_000)
    pq.write_table(pa.table({"x": values}), whole, row_group_size=65_536, use_dictionary=False)
    damaged = bytearray(whole.read_bytes())
    middle = len(damaged) * 3 // 5
    damaged[middle : middle + 200_000] = bytes(200_000)
    whole.write_bytes(damaged)
    s = write(tmp_path / "s.parquet", a=values[:1000])
    out = tmp_path / "out.parquet"
    done = eddyline("join", whole, s, "--on", "r.x = s.a", "--window", "unbounded", "-o", out)
    assert done.returncode == DATA
    assert "r.parquet is damaged" in done.stderr
    assert "has the pairs found so far" in done.stderr
    assert pq.read_table(out).num_rows == 1000


def test_malformed_csv_row(files, tmp_path, capsys):
    bad = tmp_path / "bad.csv"
    bad.write_text("x,y\n1,2\n3,4,5\n6,7\n")
    fails(
        capsys, DATA, "bad.csv, row 2: Expected 2 columns, got 3: 3,4,5",
        arguments=["join", bad, files[1], "--on", "r.x = s.a"],
    )  # fmt: skip


def test_a_csv_value_of_another_type_than_the_first_rows(files, tmp_path):
    rows = [f"{i},{i}" for i in range(200_000)]
    rows[150_000] = "150000,oops"
    bad = tmp_path / "bad.csv"
    bad.write_text("x,y\n" + "\n".join(rows) + "\n")
    out = tmp_path / "out.csv"
    done = eddyline("join", bad, files[1], "--on", "r.x = s.a", "--window", "unbounded", "-o", out)
    assert done.returncode == DATA
    assert "bad.csv, row 150001:" in done.stderr
    assert "invalid value 'oops'" in done.stderr
    assert "--types" in done.stderr
    assert len(out.read_text().splitlines()) == 4, "what was joined before is there"


def test_types_can_be_given(files, tmp_path, capsys):
    r = tmp_path / "r.csv"
    r.write_text("x,y\n1,2\n")
    arguments = ["explain", str(r), files[1], "--on", "r.y = 0.1", "--types", "r.y=float32"]
    assert main(arguments) == 0
    fails(capsys, QUERY, "no column 'q'", arguments=[*arguments[:-1], "r.q=int8"])
    fails(capsys, QUERY, "no type 'int7'", arguments=[*arguments[:-1], "r.y=int7"])


def test_malformed_ndjson(files, tmp_path, capsys):
    bad = tmp_path / "bad.ndjson"
    bad.write_text('{"x": 1}\n{"x": 2,}\n')
    fails(
        capsys,
        DATA,
        "bad.ndjson, row 2: Missing a name for object member (in '{\"x\": 2,}'",
        arguments=["join", bad, files[1], "--on", "TRUE"],
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'x,n\n1,"abc\n2,d\n', "bad.csv, row 1 or later: a quote is never closed"),
        (b'x,n\n1,"a"\n2,b,c\n3,"d"\n', "bad.csv, row 2: Expected 2 columns, got 3"),
        (b'x,n\n1,"a\nb"\n\n2,"c"\n3\n', "bad.csv, row 3: Expected 2 columns, got 1"),
        (b"x,n\n1,a\n2,\xff\xfe\n", "bad.csv, row 2: column 'n': "),
        (b"x,\xff\n1,a\n", "bad.csv: the column names are not UTF-8"),
    ],
)
def test_csv_that_is_wrong_says_where(files, tmp_path, capsys, content, message):
    bad = tmp_path / "bad.csv"
    bad.write_bytes(content)
    fails(capsys, DATA, message, arguments=["join", bad, files[1], "--on", "r.x = s.a"])


def test_the_column_is_named(files, tmp_path, capsys):
    bad = tmp_path / "bad.csv"
    bad.write_text("x,y\n1,2\n2,zwei\n")
    fails(
        capsys, DATA, "bad.csv, row 2: column 'y': CSV conversion error", "invalid value 'zwei'",
        arguments=["join", bad, files[1], "--on", "TRUE", "--types", "r.y=int64"],
    )  # fmt: skip


def test_decimals_need_a_scale_within_their_precision(files, tmp_path, capsys):
    r = tmp_path / "r.csv"
    r.write_text("x\n1\n")
    fails(
        capsys, QUERY, "no type 'decimal(9,12)'",
        arguments=["join", r, files[1], "--on", "TRUE", "--types", "r.x=decimal(9,12)"],
    )  # fmt: skip


def test_text_formats_refuse_what_they_cannot_hold(tmp_path, capsys):
    r = write(tmp_path / "r.parquet", x=[1], tags=[["a"]], raw=[b"\xff"])
    out = tmp_path / "o.csv"
    out.write_text("precious")
    arguments = ["join", r, r, "--on", "r.x = s.x", "-o", out]
    fails(capsys, QUERY, "column 'r_tags' is list<", "--select", arguments=arguments)
    assert out.read_text() == "precious"
    arguments = ["join", r, r, "--on", "TRUE", "--select", "r.raw", "-o", tmp_path / "o.ndjson"]
    fails(capsys, QUERY, "column 'raw' is binary, which ndjson cannot hold", arguments=arguments)


@pytest.mark.parametrize(
    ("column", "format_"),
    [
        (pa.array([b"0" * 16], pa.uuid()), "csv"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "csv"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "ndjson"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "parquet"),
    ],
)
def test_what_a_format_cannot_hold_is_known_before_it_is_opened(tmp_path, capsys, column, format_):
    r, out = tmp_path / "r.arrow", tmp_path / f"o.{format_}"
    table = pa.table({"x": [1], "y": column})
    with pa.ipc.new_file(r, table.schema) as writer:
        writer.write_table(table)
    out.write_text("precious")
    arguments = ["join", r, r, "--on", "r.x = s.x", "--select", "r.y", "-o", out]
    fails(capsys, QUERY, "column 'y' is ", f"{format_} cannot hold", arguments=arguments)
    assert out.read_text() == "precious"


def test_an_output_that_is_also_an_input_is_refused(files, tmp_path, capsys):
    before = Path(files[0]).read_bytes()
    link = tmp_path / "link.parquet"
    link.symlink_to(files[0])
    for name in (files[0], link):
        arguments = ["join", *files, "--on", "TRUE", "-o", name]
        fails(capsys, QUERY, "is already in use here: write to another file", arguments=arguments)
    assert Path(files[0]).read_bytes() == before


def test_two_outputs_in_one_file_are_refused(files, tmp_path, capsys):
    used = "is already in use here: write to another file"
    query = ["join", *files, "--on", "TRUE", "--time", "ts", "--lateness", "1"]
    new = [tmp_path / "new.csv", f"{tmp_path}/./new.csv"]
    fails(capsys, QUERY, used, arguments=[*query, "-o", new[0], "--late-r", new[1]])
    assert not new[0].exists()
    fails(capsys, QUERY, f"stdout {used}", arguments=[*query, "--late-r", "-"])


def test_what_stdin_reads_is_not_overwritten(files, tmp_path):
    victim = tmp_path / "victim.csv"
    victim.write_text("x\n1\n")
    with victim.open("rb") as file:
        done = subprocess.run(
            [*EDDYLINE, "join", "-", files[1], "--on", "r.x = s.a", "-o", str(victim)],
            stdin=file, capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == QUERY
    assert "victim.csv is already in use here" in done.stderr
    assert victim.read_text() == "x\n1\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_stdout_is_no_internal_error():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*EDDYLINE, "devices"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == MACHINE
    assert "no space left" in done.stderr


def test_empty_csv(files, tmp_path, capsys):
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    fails(capsys, DATA, "empty.csv is empty", arguments=["join", empty, files[1], "--on", "TRUE"])


def test_a_csv_of_only_a_header_is_an_empty_stream(files, tmp_path, capsys):
    header = tmp_path / "r.csv"
    header.write_text("x,ts\n")
    out = tmp_path / "o.csv"
    arguments = ["join", header, files[1], "--on", "r.x = s.a", "--time", "ts", "-o", out]
    assert main([str(one) for one in arguments]) == 0
    assert "0 rows of R and 3 of S gave 0 pairs" in capsys.readouterr().err
    assert out.read_text() == '"x","r_ts","a","s_ts"\n'


def test_a_header_without_the_time_column(files, tmp_path, capsys):
    header, s = tmp_path / "r.csv", tmp_path / "s.csv"
    header.write_text("x,ts\n")
    s.write_text("a,when\n1,1\n")
    arguments = ["join", header, s, "--on", "r.x = s.a", "--time", "ts"]
    fails(
        capsys, QUERY, "no time column 'ts' in stream s (there are: a, when)", arguments=arguments
    )


def test_further_files_with_other_columns_or_one_twice(files, tmp_path, capsys):
    one, other, twice = (tmp_path / name for name in ("one.csv", "other.csv", "twice.csv"))
    one.write_text("x,y\n1,2\n")
    other.write_text("y\n1\n")
    twice.write_text("x,x\n1,2\n")
    query = ["--on", "TRUE"]
    fails(
        capsys, QUERY, "physical stream 1 of r has other columns",
        arguments=["join", one, files[1], "--r", other, *query],
    )  # fmt: skip
    fails(
        capsys, QUERY, "two columns called 'x'",
        arguments=["join", twice, files[1], "--r", twice, *query],
    )  # fmt: skip


def test_times_that_run_backwards(files, tmp_path, capsys):
    r = write(tmp_path / "back.parquet", ts=[1, 5, 4], x=[1, 2, 3])
    fails(
        capsys, DATA, "back.parquet, row 3, column 'ts': time 4 runs backwards", "lateness",
        arguments=["join", r, files[1], "--on", "TRUE", "--time", "ts"],
    )  # fmt: skip


def test_a_null_time(files, tmp_path, capsys):
    r = write(tmp_path / "null.parquet", ts=[1, None], x=[1, 2])
    fails(
        capsys, DATA, "null.parquet, row 2, column 'ts': the time is NULL",
        arguments=["join", r, files[1], "--on", "TRUE", "--time", "ts"],
    )  # fmt: skip


def test_streams_of_a_side_with_other_columns(files, capsys):
    fails(
        capsys, QUERY, "physical stream 1 of r has other columns",
        arguments=["join", files[0], files[1], "--r", files[1], "--on", "TRUE"],
    )  # fmt: skip


def test_stdin_twice(capsys):
    fails(capsys, QUERY, "stdin can be only one", arguments=["join", "-", "-", "--on", "TRUE"])


def test_more_rows_in_a_window_than_ids(tmp_path):
    """Checked with ids of 8 bits, because 2^32 rows do not fit a test."""
    from eddyline.device.discovery import open_device
    from eddyline.errors import DataError
    from eddyline.io.source import ArrowSource
    from eddyline.query import Query
    from eddyline.query.window import unbounded
    from eddyline.session import Session

    table = pa.table({"x": range(200)})
    query = Query(table.schema, table.schema, "r.x = s.x", unbounded(), unbounded(), id_bits=8)
    with open_device("cpu") as device:
        sides = ([ArrowSource(table, name=side)] for side in "rs")
        session = Session(query, *sides, device)
        with pytest.raises(DataError, match="hold 255 rows, all that ids of 8 bits can name"):
            list(session)
        assert session.totals.pairs == 127, "what can be told apart is joined first"


def test_an_existing_output_survives_a_query_that_is_wrong(files, tmp_path):
    out = tmp_path / "o.csv"
    out.write_text("precious")
    assert main(["join", *files, "--on", "r.x = s.zzz", "-o", str(out)]) == QUERY
    assert out.read_text() == "precious"


def test_tracebacks_only_when_asked_for(files, capsys):
    assert main(["join", *files, "--on", "r.x = ", "-vv"]) == QUERY
    assert "Traceback" in capsys.readouterr().err


def test_usage_errors_exit_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["join", "only_one"])
    assert caught.value.code == QUERY
    assert "usage:" in capsys.readouterr().err
