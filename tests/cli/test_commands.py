"""The commands around the join: generate, explain, devices, doctor, and the demo."""

import hashlib
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.cli.demo import tour
from eddyline.cli.main import main
from eddyline.plan import Plan
from eddyline.streams import RATES, PanJoin, ScaleJoin, SplitJoin, uniform
from tests.cli.shell import eddyline, write

GOLDEN = Path(__file__).parent.parent / "golden"


def test_the_demo_says_and_makes_what_it_always_did(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert tour(Path("demo"), spark=False) == 0
    said = capsys.readouterr()
    assert said.out == (GOLDEN / "demo.txt").read_text()
    assert re.fullmatch(
        r"100 000 rows of R and 100 000 of S gave 36 876 pairs on cpu in [\d.]+ s "
        r"\([\d ]+ rows/s\)\n",
        said.err,
    )
    joined = pq.read_table("demo/joined.parquet").combine_chunks()
    digest = hashlib.sha256()
    for row in joined.to_pylist():
        digest.update(repr(tuple(row.values())).encode())
    assert digest.hexdigest() == (GOLDEN / "demo.sha256").read_text().strip()


def test_streams_do_not_depend_on_how_they_are_cut():
    whole = pa.Table.from_batches(SplitJoin(1000, seed=3).batches("r"))
    pieces = pa.Table.from_batches(SplitJoin(1000, seed=3).batches("r", size=7))
    assert whole.combine_chunks() == pieces.combine_chunks()
    other = pa.Table.from_batches(SplitJoin(1000, seed=4).batches("r"))
    assert not whole.equals(other)


def test_random_numbers_are_uniform_and_independent():
    n = 100_000
    a, b = uniform(1, "a", np.arange(n)), uniform(1, "b", np.arange(n))
    for column in (a, b):
        counts, _ = np.histogram(column, bins=100, range=(0, 1))
        assert abs(counts - n / 100).max() < 6 * np.sqrt(n / 100)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 0.02


def test_splitjoin_streams_match_the_paper():
    r, s = (pa.Table.from_batches(SplitJoin(50_000, 1).batches(side)) for side in "rs")
    assert [str(t) for t in r.schema.types] == ["int32", "float", "string"]
    assert [str(t) for t in s.schema.types] == ["int32", "float", "double", "bool"]
    assert {len(z) for z in r["z"].to_pylist()} == {20}
    x = r["x"].to_numpy()
    assert (x.min(), x.max()) == (1, 10_000)
    import duckdb

    few = s.slice(0, 5000)
    assert few.num_rows == 5000
    ((pairs,),) = duckdb.sql(f"SELECT count(*) FROM r, few s WHERE {SplitJoin.on}").fetchall()
    assert 0.8 < pairs * 250_000 / (50_000 * 5000) < 1.2, "one in 250,000 comparisons"


@pytest.mark.parametrize(
    ("distribution", "selectivity"),
    [("uniform", 1), ("uniform", 16), ("normal", 8), ("ranksize", 32)],
)
def test_panjoin_selectivity_is_what_was_asked_for(distribution, selectivity):
    window = 20_000
    made = PanJoin(window, 1, window=window, selectivity=selectivity, distribution=distribution)
    r, s = (np.sort(_column(made, side, "value").astype(np.int64)) for side in "rs")
    low, high = (
        np.searchsorted(s, r - made.band, "left"),
        np.searchsorted(s, r + made.band, "right"),
    )
    assert 0.5 < (high - low).mean() / selectivity < 2
    if distribution == "ranksize":
        assert np.mean(r < 0.01 * 0.01 * 2**31) > 0.98, "as the paper's view counts"


def test_panjoin_can_have_several_peaks():
    values = _column(PanJoin(20_000, 1, distribution="normal", spread=0.01, modes=4), "r", "value")
    counts, _ = np.histogram(values, bins=8, range=(0, 2**31))
    assert counts.min() > 1000
    counts, _ = np.histogram(values, bins=64, range=(0, 2**31))
    assert np.count_nonzero(counts > 200) < 32


@pytest.mark.parametrize("pattern", RATES)
def test_scalejoin_rates(pattern):
    made = ScaleJoin(120, 1, pattern)
    r, s = RATES[pattern]
    per_second = {
        name: np.bincount(_column(made, name, "ts").astype(np.int64) // 1000, minlength=120)
        for name in made.streams
    }
    assert list(per_second) == [*r, *s]
    for name, rates in per_second.items():
        assert np.abs(rates - made.rate(name, np.arange(120) + 0.5)).max() <= 40
        assert np.all(np.diff(_column(made, name, "ts").astype(np.int64)) >= 0)
    spread = per_second["r0"].max() / per_second["r0"].min()
    assert (spread < 1.1) == (pattern == "constant")
    if pattern == "peaks":
        assert spread > 3


def _column(made, stream: str, name: str) -> np.ndarray:
    return pa.Table.from_batches(made.batches(stream))[name].to_numpy()


@pytest.mark.parametrize(
    "options",
    [
        ["splitjoin", "--rows", "300", "--rate", "100"],
        ["panjoin", "--rows", "300", "--format", "csv", "--distribution", "ranksize"],
        ["scalejoin", "--seconds", "0.4", "--pattern", "peaks", "--format", "arrow"],
    ],
)
def test_the_printed_command_joins_what_was_generated(tmp_path, capsys, options):
    assert main(["generate", *options, "-o", str(tmp_path / "made")]) == 0
    command = capsys.readouterr().out.splitlines()[-1]
    program, *arguments = shlex.split(command)
    assert program == "eddyline"
    assert main([*arguments, "-o", str(tmp_path / "out.csv")]) == 0
    assert "pairs on cpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["splitjoin", "--rows", "-1"], "cannot be negative"),
        (["scalejoin", "--seconds", "inf"], "must be finite"),
        (["panjoin", "--selectivity", "nan"], "must be finite"),
        (["splitjoin", "--rate", "0"], "never delivers a row"),
        (["panjoin", "--selectivity", "0"], "must be above zero"),
        (["panjoin", "--spread", "3"], "is not a share of the range"),
    ],
)
def test_streams_that_cannot_be(tmp_path, capsys, options, message):
    assert main(["generate", *options, "-o", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_explain_prints_the_plan_as_json(tmp_path, capsys):
    r, s = write(tmp_path / "r.parquet", x=[1]), write(tmp_path / "s.parquet", a=[1])
    assert main(["explain", str(r), str(s), "--on", "r.x = s.a", "--json"]) == 0
    plan = Plan.from_json(capsys.readouterr().out)
    assert plan.r.words[0].width == 64
    assert json.loads(plan.to_json())["window_r"] == {"kind": "rows", "size": 65536}


def test_explain_takes_an_engine(tmp_path, capsys):
    r, s = write(tmp_path / "r.parquet", x=[1]), write(tmp_path / "s.parquet", a=[1])
    command = ["explain", str(r), str(s), "--on", "r.x < s.a", "--engine"]
    assert main([*command, "wib"]) == 0
    assert "engine      wib, asked for\n" in capsys.readouterr().out
    assert main([*command, "hash"]) == 1
    assert "use bisort, rap or wib" in capsys.readouterr().err


def test_devices_are_listed(capsys):
    assert main(["devices"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^cpu +ready, auto", said, re.MULTILINE)
    assert re.search(r"^reference +ready", said, re.MULTILINE)


def test_a_device_that_is_not_here_says_why(monkeypatch, capsys):
    import dataclasses

    from eddyline.device import discovery

    broken = dataclasses.replace(discovery.DEVICES["cpu"], module="eddyline.device.no_such_module")
    monkeypatch.setitem(discovery.DEVICES, "cpu", broken)
    assert main(["devices"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^cpu +not here: No module named 'eddyline.device.no_such_module'", said)
    assert discovery.open_device("auto").name == "reference"


def test_doctor_checks_what_is_needed(capsys):
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for line in (
        "ok       python",
        "ok       cpu kernels",
        "ok       verilator",
        "ok       opencl",
    ):
        assert line in said


def test_doctor_reports_a_cache_that_cannot_be_written(monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert main(["doctor"]) == 3
    assert "set XDG_CACHE_HOME to a writable directory" in capsys.readouterr().out


def test_version_and_help():
    assert re.fullmatch(r"eddyline \d+\.\d+\.\d+\n", eddyline("--version").stdout)
    overview = eddyline("--help").stdout
    for command in ("join", "explain", "generate", "devices", "doctor", "exit codes"):
        assert command in overview
