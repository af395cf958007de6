"""``eddyline bench engines`` measures what it says, and writes it down."""

import csv
import json
from xml.etree import ElementTree

import pytest

from eddyline.cli.bench.engines import NAMES, Sizes, figures
from eddyline.cli.bench.subwindow import Point, Subwindow
from eddyline.cli.main import main

SMALL = Sizes(
    subwindow=1 << 12,
    subwindows=(1 << 10, 1 << 12),
    batches=(64, 1 << 12),
    partition=64,
    partitions=(16, 64),
    selectivities=(1, 16),
    runs=2,
)
PLOTS = {f"figure_{number}{letter}.svg" for number in (10, 11, 12) for letter in "abcde"}
PLOTS |= {f"figure_{name}.svg" for name in ("10f", "11f", "12f", "13a", "13b", "13c")}
TABLES = {"results.json", "tables.md"} | {
    f"{name}.csv" for name in ("throughput", "speedup", "adjustment", "memory")
}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(Sizes, "chosen", classmethod(lambda cls, *, full: SMALL))


def test_a_small_run_writes_tables_numbers_and_plots(small, tmp_path, capsys):
    assert main(["bench", "engines", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert {path.name for path in tmp_path.iterdir()} == PLOTS | TABLES
    assert "22/22" in said.err  # the last step was reached
    assert said.out.rstrip() == (tmp_path / "tables.md").read_text().rstrip()
    assert "| 4096 | " in said.out
    for path in tmp_path.glob("*.svg"):
        lines = ElementTree.parse(path).findall("{http://www.w3.org/2000/svg}polyline")
        assert 1 <= len(lines) <= 5
    results = json.loads((tmp_path / "results.json").read_text())
    with (tmp_path / "throughput.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["figure"] for row in rows} == {figure["name"] for figure in results["figures"]}
    for row in rows:
        assert 0 < float(row["low"]) <= float(row["median"]) <= float(row["high"])
    for row in results["speedup"]:
        assert all(value > 0 for value in row.values())
    for row in results["errors"]:
        # Few tuples: even exact quantiles leave much to chance.
        assert row["error"][-1] < 1.5 * row["best"]
    formulas = {row["engine"]: row["formula"] for row in results["memory"] if row["formula"]}
    assert formulas["RaP-Table"] == pytest.approx(8 * 2.5 + 16 / 64)
    assert set(formulas) == set(NAMES.values()) - {"hash"}


@pytest.mark.parametrize("full", [False, True])
def test_the_comparison_needs_no_measurements_but_the_others(full):
    """Figure 13 shows points of figures 10 to 12, and the hash index."""
    planned = list(figures(Sizes.chosen(full=full)))
    others = {
        point
        for figure in planned
        if not figure.name.startswith("13")
        for column in figure.columns.values()
        for point in column
    }
    for figure in planned:
        for column in figure.columns.values():
            xs = [getattr(point, figure.x) for point in column]
            assert xs == sorted(set(xs))
            assert all(p in others or p.engine == "hash" for p in column)


@pytest.mark.parametrize("engine", [*NAMES, "btree"])
@pytest.mark.parametrize("operation", ["equal", "band"])
@pytest.mark.parametrize("selectivity", [1, 32])
def test_lookups_find_as_many_as_the_selectivity_says(engine, operation, selectivity):
    if engine == "hash" and operation == "band":
        return
    point = Point(engine, operation, 1 << 14, 4096, 256, selectivity)
    assert Subwindow(runs=1).measure(point).found == pytest.approx(selectivity, rel=0.1)


def test_cores_are_no_option_of_engines(small, tmp_path, capsys):
    assert main(["bench", "engines", "--cores", "2", "--out", str(tmp_path)]) == 2
    assert "--cores is an option of splitjoin" in capsys.readouterr().err
