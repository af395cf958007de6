"""``eddyline join`` on simulated gateware: what it prints, and what it refuses."""

import json

import pytest

from eddyline.cli.join import frequency
from tests.cli.shell import eddyline

ROWS = 30


def write(path, text):
    path.write_text(text)
    return str(path)


@pytest.fixture
def streams(tmp_path):
    r = write(tmp_path / "r.csv", "x\n" + "".join(f"{7 * i % 23}\n" for i in range(ROWS)))
    s = write(tmp_path / "s.csv", "a\n" + "".join(f"{5 * i % 19}\n" for i in range(ROWS)))
    return ["join", r, s, "--on", "abs(r.x - s.a) <= 1", "--window", "rows:8"]


@pytest.mark.parametrize("order", ["inner", "outer"])
@pytest.mark.parametrize("simulated", ["handshake", "splitjoin"])
def test_the_gateware_gives_what_the_definition_gives(streams, tmp_path, order, simulated):
    outputs = {}
    for device in (f"sim:{simulated}?cores=2&comparators=2", "reference"):
        done = eddyline(*streams, "--device", device, "--order", order)
        assert done.returncode == 0, done.stderr
        outputs[device] = done.stdout.splitlines()
    simulated, right = outputs.values()
    assert sorted(simulated) == sorted(right)
    assert order == "outer" or simulated == right


@pytest.mark.parametrize("kind", ["handshake?", "handshake?chain=asynchronous&", "splitjoin?"])
def test_a_predicate_may_be_never_true(streams, kind):
    streams[streams.index("--on") + 1] = "r.x = s.a AND FALSE"
    done = eddyline(*streams, "--device", f"sim:{kind}cores=3&comparators=2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ['"x","a"']


def test_cycles_are_counted_and_scaled_to_a_clock(streams, tmp_path):
    done = eddyline(
        *streams, "--device", "sim:handshake?cores=2&comparators=2", "--clock", "130MHz",
        "--json", "-o", str(tmp_path / "joined.csv"),
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["tuples"] == 2 * ROWS
    # Segments of 4 slots on 2 comparators, and the way of the star.
    flow = report["cycles"] - report["flush_cycles"]
    assert 2 <= report["cycles_per_tuple"] == pytest.approx(flow / 60, abs=1e-3)
    pairs = sum(min(i, 8) for i in range(ROWS)) + sum(min(i + 1, 8) for i in range(ROWS))
    assert report["comparisons"] == pairs
    assert report["comparator_duty"] == pytest.approx(pairs / (report["cycles"] * 4), abs=1e-3)
    assert report["tuples_per_second"] == round(130e6 / report["cycles_per_tuple"])
    assert (report["dropped_tuples"], report["dropped_results"]) == (0, 0)
    assert "per tuple, comparators busy" in done.stderr
    assert "tuples/s at 130 MHz" in done.stderr


def test_splitjoin_counts_what_its_cores_do(streams, tmp_path):
    done = eddyline(
        *streams, "--device", "sim:splitjoin?cores=2&comparators=2", "--clock", "130MHz",
        "--json", "-o", str(tmp_path / "joined.csv"),
    )  # fmt: skip
    report = json.loads(done.stdout)
    pairs = sum(min(i, 8) for i in range(ROWS)) + sum(min(i + 1, 8) for i in range(ROWS))
    assert (report["tuples"], report["comparisons"]) == (2 * ROWS, pairs)
    flow = report["cycles"] - report["flush_cycles"]
    # Shares of 4 slots on 2 comparators, and the way of the star.
    assert 2 <= report["cycles_per_tuple"] == pytest.approx(flow / 60, abs=1e-3)
    assert report["comparator_duty"] == pytest.approx(pairs / (report["cycles"] * 4), abs=1e-3)
    assert report["busy"] == pytest.approx(60 * 2 / report["cycles"], abs=1e-3)
    assert report["queue_peak"] > 0
    assert report["stalls_entry"] > 0
    assert (report["interval"], report["lost_rows"]) == (0, 0)
    assert report["tuples_per_second"] == round(130e6 / report["cycles_per_tuple"])
    assert "warning" not in done.stderr


def test_what_a_broken_core_costs_is_said(streams):
    device = "sim:splitjoin?cores=2&comparators=2"
    whole = eddyline(*streams, "--device", device, "--order", "inner")
    done = eddyline(*streams, "--device", f"{device}&broken=2", "--order", "inner")
    assert done.returncode == 0, done.stderr
    assert f"warning: {ROWS} rows were lost with cores that are off" in done.stderr
    kept = iter(whole.stdout.splitlines())
    assert all(line in kept for line in done.stdout.splitlines()), "in the same order"
    assert len(done.stdout) < len(whole.stdout)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("sim:handshake?cors=2", "has no option 'cors' (it takes: cores, window, comparators"),
        ("sim:handshake?chain=ring", "chain='ring' is not one of: lockstep, asynchronous"),
        ("sim:handshake?fan_in=9", "fan_in=9 is not from 2 to 8"),
        ("sim:handshake?cores=1000", "cores=1000 is more than the 256"),
        ("sim:handshake?window=4", "a window of 8 rows does not fit window=4"),
        ("sim:handshake?comparators=3", "a core holds 2 tuples of a side: use 1 to 2"),
        ("sim:handshake?chain=asynchronous&memory=shift", "memory=shift is for chain=lockstep"),
        ("sim:handshake?memory=bram", "a ring in bram needs at least 3 rows"),
        ("sim:handshakes", "has no variant 'handshakes' (known: sim:handshake, sim:splitjoin)"),
        (
            "sim:splitjoin?fan=2",
            "has no option 'fan' (it takes: cores, window, comparators, fan_out",
        ),
        ("sim:splitjoin?memory=shift", "memory='shift' is not one of: auto, lutram, bram"),
        ("sim:splitjoin?fan_out=1", "fan_out=1 is not 2 or more"),
        ("sim:splitjoin?fan_in=9", "fan_in=9 is not from 2 to 8"),
        ("sim:splitjoin?cores=1000", "cores=1000 is more than the 64"),
        ("sim:splitjoin?window=4", "a window of 8 rows does not fit window=4"),
        ("sim:splitjoin?comparators=3", "a core holds 2 tuples of a side: use 1 to 2"),
        ("sim:splitjoin?cores=2&broken=3", "there is no core 3: they are 1 to 2"),
        ("sim:splitjoin?cores=1&broken=1", "at least one has to stay on"),
    ],
)
def test_an_impossible_device_says_what_is_possible(streams, device, message):
    done = eddyline(*streams, "--device", device)
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("time:5", "say how many with window=N, enough for the busiest moment"),
        ("unbounded", "say how many with window=N, as many as will ever come"),
    ],
)
def test_windows_without_a_size_need_a_capacity(tmp_path, window, message):
    r = write(tmp_path / "r.csv", "t,x\n1,1\n")
    s = write(tmp_path / "s.csv", "t,a\n1,1\n")
    done = eddyline(
        "join", r, s, "--on", "r.x = s.a", "--window", window, "--time", "t",
        "--device", "sim:handshake",
    )  # fmt: skip
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


def test_order_cannot_be_restored_where_tuples_may_be_dropped(streams):
    done = eddyline(*streams, "--device", "sim:handshake?admission=drop_new", "--order", "inner")
    assert done.returncode == 1
    assert "order inner cannot be restored" in done.stderr


def test_the_load_cannot_decide_about_an_order_that_was_asked_for(streams):
    done = eddyline(*streams, "--device", "sim:splitjoin?precision=adaptive", "--order", "outer")
    assert done.returncode == 1
    assert "the query asks for order outer: leave one of them out" in done.stderr


@pytest.mark.parametrize("simulated", ["handshake", "splitjoin"])
def test_a_time_window_that_does_not_fit_is_an_error_not_a_missing_pair(tmp_path, simulated):
    rows = "t,x\n" + "".join(f"{i},1\n" for i in range(20))
    r, s = write(tmp_path / "r.csv", rows), write(tmp_path / "s.csv", rows.replace("x", "a"))
    query = ["join", r, s, "--on", "r.x = s.a", "--time", "t", "--device"]
    device = f"sim:{simulated}?cores=2&window=4"
    fits = eddyline(*query, device, "--window", "time:2", "--order", "inner")
    right = eddyline(*query, "reference", "--window", "time:2", "--order", "inner")
    assert fits.returncode == 0, fits.stderr
    assert fits.stdout == right.stdout
    done = eddyline(*query, device, "--window", "time:9")
    assert done.returncode == 1
    assert "there is room for 4 of R and 4 of S: give more with window=N" in done.stderr


def test_only_simulators_have_waveforms(streams, tmp_path):
    done = eddyline(*streams, "--device", "cpu", "--trace", str(tmp_path / "x.fst"))
    assert (done.returncode, "has no waveforms" in done.stderr) == (1, True)
    done = eddyline(*streams, "--device", "sim:handshake", "--trace", "x.png")
    assert (done.returncode, "must end in .fst or .vcd" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "hertz"), [("130MHz", 130e6), ("1.5 GHz", 1.5e9), ("12000", 12e3), ("48khz", 48e3)]
)
def test_clocks_are_read_with_their_unit(text, hertz):
    assert frequency(text) == hertz
