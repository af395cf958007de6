"""``eddyline bench`` measures what the operator promises, and says so when it does not."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eddyline.cli.bench.fast_forward import LINK, MONITOR, FastForward
from eddyline.cli.bench.report import knee, write
from eddyline.cli.bench.rig import Shape, SplitRig
from eddyline.cli.bench.splitjoin import OTHERS, disagreements, duty, formula
from eddyline.cli.bench.steps import Steps
from eddyline.cli.bench.svg import Line, plot
from eddyline.cli.main import main
from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.splitjoin.precision import Precision
from eddyline_hw.splitjoin.region import Region
from tests.hw.handshake.joins import band_plan, message
from tests.hw.splitjoin.play import STAR, play

DOCUMENT = Path(__file__).parents[2] / "docs" / "splitjoin.md"
FILES = {
    "results.json",
    "tables.md",
    "latency.svg",
    "visiting.svg",
    "stages_alone.svg",
    "stages_saturated.svg",
    "precision.svg",
    "matches.svg",
}
CORES = (1, 3)
STAGES = 2  # registers inside the predicate


def documented(row):
    """Return the latency by the formulas of docs/splitjoin.md."""
    text = DOCUMENT.read_text()
    gathering = re.search(r"^gathering += (?:(\d+) \+ )?(\d+) \* ceil\(log_c k\)$", text, re.M)
    rest = re.search(
        r"^latency += distribution \+ rows \+ stages \+ gathering \+ (\d+)$", text, re.M
    )
    first, per_level = map(int, gathering.groups(default="0"))
    cores = row["cores"]
    distribution = max(1, height(cores, row["fan_out"]))
    rows = {
        "outer:1": -(-row["slots"] // row["lanes"]),
        "inner": -(-row["slots"] // row["lanes"]) + 1,
        "inner:1": row["slots"] + 1,
    }[row["order"]]
    collection = first + per_level * height(cores, row["fan_in"])
    return distribution + rows + STAGES + collection + int(rest[1])


def height(cores, ways):
    """Return ceil(log_ways cores), in whole numbers."""
    return next(levels for levels in range(cores) if ways**levels >= cores)


def check(results, cores):
    """Look at every table: what was measured is what the design must give."""
    assert not disagreements(results)
    assert [row["cores"] for row in results["latency"]] == list(cores)
    slots = results["sizes"]["slots"]
    for row in results["formula"]:
        assert row["measured"] == documented(row)
    for row in results["latency"]:
        if row["cores"] > 1:
            assert row["splitjoin"] < row["fast_forward_model"] < row["handshake_lockstep"]
            # A pair is met anywhere along the chain.
            share = row["handshake_visiting"] / row["handshake_lockstep"]
            assert 0.25 < share < 0.6
    for row in results["stages"]:
        parts = row["distribution"] + row["execution"] + row["gathering"]
        assert parts == pytest.approx(row["processing"])
        assert row["distribution"] < row["visiting"] < row["processing"]
        # From the first row to the last, the memory's cycles, and the comparators'.
        assert row["execution"] == pytest.approx(slots - 1 + Region.latency + 1 + STAGES + 1)
        if row["load"] == "alone":
            middle = (slots - 1) / 2  # of a scan
            assert row["visiting"] == row["distribution"] + Region.latency + middle
    alone = {row["cores"]: row for row in results["stages"] if row["load"] == "alone"}
    for row in results["latency"]:
        assert alone[row["cores"]]["processing"] == row["splitjoin"]
        assert alone[row["cores"]]["model_processing"] == row["fast_forward_model"]
        if row["cores"] > 1:
            mine = alone[row["cores"]]
            assert mine["visiting"] < mine["model_visiting"] < row["handshake_visiting"]
    exact = [row["order"] for row in results["precision"] if row["every"] == 1]
    assert exact == ["none", "outer:1", "inner:1"]
    for row in results["precision"]:
        # Nothing else takes cycles: a row per cycle, or an item per cycle at the root.
        bound = max(row["scan"], row["items"])
        assert row["cycles_per_tuple"] == pytest.approx(bound, rel=0.002)
    for row in results["matches"]:
        # The rate is that of the pairs counted, so it is right up to chance.
        assert row["match_rate"] == pytest.approx(row["matching"], rel=0.3)
        # Near the knee tuples with many pairs wait for a moment.
        knee = abs(row["match_rate"] * row["cores"] * row["lanes"] - 1) < 0.1
        assert row["cycles_per_tuple"] == pytest.approx(row["bound"], rel=0.02 if knee else 0.004)
        if row["matching"] == 1:
            stars = row["order"] != "none"  # a star takes the place of a pair
            assert row["results_per_cycle"] > 0.99 - stars / row["bound"]
    shapes = {(row["lanes"], row["order"]) for row in results["matches"]}
    assert shapes == {(1, "none"), (1, "outer:1"), (4, "none")}
    # A scan of one cycle is the hardest: every tuple asks for a star, and none may wait for it.
    cases = {(row["input"], row["order"], row["scan"]) for row in results["duty"]}
    inputs = ("alternating", "bursty", "one-sided")
    assert cases >= {(i, o, 1) for i in inputs for o in ("none", "outer:1")}
    assert {row["lanes"] for row in results["duty"]} == {1, 4}
    for row in results["duty"]:
        # With inner order, what is old of a row and what is new are read apart. Rows wait for stars
        # where there is one for every partner.
        inner, strict = row["order"] in ("inner", "inner:1"), row["order"] == "inner:1"
        rows = (row["scan"] - 1) / row["lanes"] + 1 if strict else row["scan"]
        busiest, most = rows / row["scan"], (rows - inner) / row["scan"]
        assert 0.99 * busiest <= row["busy"] <= 1.01 * busiest, row
        assert row["busy"] <= 1
        assert 0.99 * most <= row["comparing"] <= 1.01 * most, row
    strict = [row["lanes"] for row in results["duty"] if row["order"] == "inner:1"]
    assert strict == [4] * len(inputs)


def test_a_small_run_writes_tables_numbers_and_plots(tmp_path, capsys):
    chosen = ",".join(map(str, CORES))
    assert main(["bench", "splitjoin", "--cores", chosen, "--out", str(tmp_path), "--json"]) == 0
    said = capsys.readouterr()
    assert {path.name for path in tmp_path.iterdir()} == FILES
    results = json.loads((tmp_path / "results.json").read_text())
    check(results, CORES)
    assert json.loads(said.out) == results
    tables = (tmp_path / "tables.md").read_text()
    assert "| 3 | 4 | 4 | 1 | 64 | outer:1 | 1 | 64 | 2 |" in tables
    assert f"{len(CORES) * 2 + 4}/{len(CORES) * 2 + 4}" in said.err  # the last step was reached
    for path in tmp_path.glob("*.svg"):
        lines = ElementTree.parse(path).findall("{http://www.w3.org/2000/svg}polyline")
        assert len(lines) in (2, 3, 5)


@pytest.mark.slow
def test_a_run_with_64_cores(tmp_path, capsys):
    arguments = ["--cores", "64", "--out", str(tmp_path), "--json"]
    assert main(["bench", "splitjoin", *arguments]) == 0
    check(json.loads(capsys.readouterr().out), (64,))


def test_the_document_shows_what_its_run_measured(tmp_path):
    kept = DOCUMENT.parent / "splitjoin"
    results = json.loads((kept / "results.json").read_text())
    check(results, (1, 2, 4, 8, 16, 32, 64))
    shown = DOCUMENT.read_text().splitlines()
    rows = [line for line in write(results, tmp_path).splitlines() if line.startswith("|")]
    assert len(rows) > 100
    assert [line for line in rows if line not in shown] == []
    for picture in tmp_path.glob("*.svg"):
        assert picture.read_text() == (kept / picture.name).read_text()


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_formula_that_is_off_by_one_is_noticed(wrong, tmp_path, monkeypatch, capsys):
    right = SplitJoin.latency

    def latency(self, *args, **options):
        return right(self, *args, **options) + wrong

    monkeypatch.setattr(SplitJoin, "latency", latency)
    assert main(["bench", "splitjoin", "--cores", "1", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "the latency is not what the formula promises" in said
    line = r"k = 1, b = 4, c = 4, P = 1, 16 slots, outer:1: (\d+) cycles, not (\d+)\n"
    ((measured, promised),) = re.findall(line, said)
    assert int(promised) - int(measured) == wrong


@pytest.mark.parametrize("cores", ["", "0", "65", "2,x"])
def test_senseless_cores_are_refused(cores, tmp_path, capsys):
    assert main(["bench", "splitjoin", "--cores", cores, "--out", str(tmp_path)]) == 2
    assert "--cores takes numbers from 1 to 64" in capsys.readouterr().err


@pytest.mark.parametrize(("cores", "rows"), [(1, 5), (4, 1), (7, 16)])
def test_our_model_of_fast_forwarding_follows_equations_1_and_2(cores, rows):
    outcome = FastForward(cores=cores, rows=rows, around=11, collect=3).run([(0, "s")])
    hops = LINK + (cores - 1) * (LINK + MONITOR)
    assert outcome.processing == [hops + rows + 11 + 3]
    halfway = LINK + (cores - 1) / 2 * (LINK + MONITOR) + (rows - 1) / 2
    assert outcome.visiting == pytest.approx(halfway)


def test_our_model_sustains_a_tuple_per_scan_and_no_more():
    model = FastForward(cores=4, rows=8, around=0, collect=0)
    apart = model.run([(8 * n, "rs"[n % 2]) for n in range(50)])
    assert max(apart.processing) <= 2 * (7 + 8)
    crowded = model.run([(7 * n, "rs"[n % 2]) for n in range(50)])
    assert crowded.processing[-1] > max(apart.processing)


def test_the_knee_is_where_the_input_slows_down():
    rows = [(0.0, 16.0), (0.1, 16.1), (0.2, 16.2), (0.4, 20.0), (1.0, 50.0)]
    table = [{"match_rate": a, "cycles_per_tuple": b} for a, b in rows]
    assert knee(table) == 0.2
    assert knee(table[:2]) == 1.0


def test_a_plot_places_its_points():
    picture = plot("a < b", [Line("one", [(1, 10), (8, 1000)])], x="x", y="y", log_x=2, log_y=10)
    root = ElementTree.fromstring(picture)
    assert "a < b" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
    begin, end = (tuple(map(float, one.split(","))) for one in line.get("points").split())
    assert begin == (64, 352)  # the corners of the frame
    assert end == (450, 34)


def test_other_shapes_combine_each_two_sizes():
    for chosen in ("fan_out", "fan_in"), ("fan_out", "lanes"), ("fan_in", "lanes"):
        met = {tuple(getattr(shape, name) for name in chosen) for shape in OTHERS}
        assert len(met) == 9


@pytest.mark.slow
@pytest.mark.parametrize("shape", OTHERS, ids=str)
def test_the_formula_holds_for_other_shapes(shape):
    with Steps() as steps, SplitRig(shape, steps) as rig:
        rows = formula(rig)
    assert not disagreements({"formula": rows})
    assert [row["order"] for row in rows] == ["outer:1", "inner", "inner:1"]
    for row in rows:
        assert row["measured"] == documented(row)


@pytest.mark.slow
def test_32_cores_with_8192_rows_keep_what_the_formula_promises():
    shape = Shape(32, slots=8192 // 32)
    with Steps() as steps, SplitRig(shape, steps) as rig:
        rows = formula(rig)
        busy = duty(rig, [(shape.slots, "outer:1")])
    assert not disagreements({"formula": rows})
    assert {row["slots"] for row in rows} == {16, 256}
    for row in rows:
        assert row["measured"] == documented(row)
    for row in busy:
        assert row["scan"] == 256
        assert row["busy"] == row["comparing"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cores", "fan_out", "fan_in", "levels"),
    [
        (17, 4, 4, (3, 3)),
        (17, 8, 8, (2, 2)),
        (33, 2, 4, (6, 3)),
        (48, 8, 2, (2, 6)),
        (63, 4, 8, (3, 2)),
        (64, 4, 4, (3, 3)),
        (64, 2, 8, (6, 2)),
    ],
)
def test_the_formula_holds_with_many_cores(cores, fan_out, fan_in, levels):
    """In Amaranth's simulator: compiling so many cores takes longer than simulating them."""
    window = cores * 16
    operator = SplitJoin(
        band_plan(), cores=cores, window_r=window, window_s=window, fan_out=fan_out, fan_in=fan_in
    )
    settings = operator.settings(window, window, order_mode=Precision.OUTER)
    one = message("r", 0, {"x": 0})
    _, entered, outputs = play(operator, settings, [one, STAR], idle=[0, 120])
    (left, star), *_ = outputs["left"]
    assert star.final
    assert left - entered[0] == operator.latency("s", window)
    assert (operator.tree.latency, operator.merge["r"].levels) == levels
