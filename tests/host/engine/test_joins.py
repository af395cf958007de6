"""Engines on thousands of rows against the nested loop, where a window has many subwindows."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eddyline.device import cpu
from eddyline.device.cpu import CpuDevice
from eddyline.engine.choice import choose
from eddyline.errors import DeviceError
from eddyline.io.source import ArrowSource
from eddyline.plan import Order
from eddyline.query import Query
from eddyline.query.window import rows, time, unbounded
from eddyline.session import Session

PREDICATES = {
    "equality": "r.x = s.a",
    "two equalities": "r.x = s.a AND r.k = s.k",
    "equality and band": "r.k = s.k AND abs(r.x - s.a) <= 30",
    "band": "r.x BETWEEN s.a - 3 AND s.a + 3",
    "band of floats": "abs(r.y - s.b) <= 0.5",
    "two bands": "r.x BETWEEN s.a-40 AND s.a+40 AND r.y BETWEEN s.b-9 AND s.b+9",
    "bands both ways": "r.x BETWEEN s.a-40 AND s.a+40 AND s.b BETWEEN r.y-9 AND r.y+9",
    "bounds of two columns": "r.x BETWEEN s.a AND s.c",
    "three bands": "abs(r.x-s.a) <= 90 AND abs(r.y-s.b) <= 20 AND abs(r.k-s.k) <= 2",
    "one bound": "r.x > s.a + 3900",
    "unequal": "r.k <> s.k AND r.x = s.a",
    "either": "abs(r.x - s.a) <= 1 OR abs(r.y - s.b) <= 0.2",
}
ENGINES = ["auto", "bisort", "rap", "wib", "hash", "grid"]
SHAPES = ["uniform", "skewed", "rising", "few", "magnitudes"]


def column(rng: np.random.Generator, shape: str, count: int) -> np.ndarray:
    """Return numbers from -2000 to about 2000, spread in different ways."""
    match shape:
        case "uniform":
            return rng.uniform(-2000, 2000, count)
        case "skewed":
            return np.clip(rng.pareto(0.7, count) * 5, 0, 2000)
        case "rising":
            return np.linspace(-2000, 2000, count) + rng.normal(0, 20, count)
        case "few":
            return rng.integers(0, 9, count) * 200.0
    return rng.choice([-1, 1], count) * 10.0 ** rng.uniform(-3, 3.3, count)


def moving(rng: np.random.Generator, shape: str, count: int) -> np.ndarray:
    """Return the same, or numbers that fall or jump."""
    if shape == "falling":
        return -column(rng, "rising", count)
    if shape == "jumping":
        return rng.uniform(0, 100, count) + np.arange(count) // (count // 17) * 7 % 11 * 150
    return column(rng, shape, count)


def table(rng: np.random.Generator, shape: str, count: int, names: str) -> pa.Table:
    x, y = (column(rng, shape, count) for _ in range(2))
    whole = x.astype(np.int32)
    holes = rng.random(count) < 0.02
    columns = {
        "id": np.arange(count, dtype=np.int32),
        "ts": np.sort(rng.integers(0, count, count)),
        names[0]: pa.array(whole, mask=holes),
        names[1]: pa.array(y.astype(np.float32)),
        "k": rng.integers(0, 5, count).astype(np.int8),
        "c": whole + rng.integers(0, 40, count).astype(np.int32),
    }
    return pa.table(columns)


def pairs(device: CpuDevice, query: Query, r: pa.Table, s: pa.Table, batch: int) -> list:
    """Return the pairs in the order in which they come."""
    with device:
        sources = [[ArrowSource(one, name="test")] for one in (r, s)]
        session = Session(query, *sources, device, batch=batch)
        columns = [[], []]
        for part in session:
            for some, name in zip(columns, ("i", "j"), strict=True):
                some += part[name].to_pylist()
    return list(zip(*columns, strict=True))


WINDOWS = {
    "rows": (rows(700), rows(300)),
    "one row": (rows(1), rows(1)),
    "unbounded": (unbounded(), unbounded()),
    "time": (time(400), time(90)),
    "mixed": (time(300), rows(500)),
}


@pytest.mark.parametrize("on", PREDICATES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_engines_find_what_the_nested_loop_finds(on, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 16)))
    count = data.draw(st.sampled_from([3, 400, 2500]))
    shape = data.draw(st.sampled_from(SHAPES))
    r, s = table(rng, shape, count, "xy"), table(rng, shape, count, "ab")
    kinds = data.draw(st.sampled_from(list(WINDOWS)))
    order = data.draw(st.sampled_from(["none", "none", "inner"]))
    batch = data.draw(st.sampled_from([7, 300, 1 << 16]))
    timed = kinds in ("time", "mixed")
    query = Query(
        r.schema, s.schema, PREDICATES[on], *WINDOWS[kinds],
        time=("ts", "ts") if timed else None, order=Order(order), select="r.id AS i, s.id AS j",
    )  # fmt: skip
    expected = pairs(CpuDevice(engine="nested"), query, r, s, batch)
    engine = data.draw(st.sampled_from(ENGINES))
    subwindows = data.draw(st.sampled_from([None, 1, 6]))
    threads = data.draw(st.sampled_from([1, 3]))
    device = CpuDevice(engine=engine, subwindows=subwindows, threads=threads)
    try:
        choose(query.plan, engine)
    except DeviceError:
        return
    found = pairs(device, query, r, s, batch)
    if order == "none":
        found, expected = sorted(found), sorted(expected)
    assert found == expected


@pytest.mark.parametrize("shape", ["uniform", "skewed"])
@pytest.mark.parametrize("engine", ["grid", "bisort"])
@pytest.mark.parametrize("window", [2000, 16_000])
def test_two_bands_look_at_few_candidates_whatever_the_window(engine, shape, window):
    assert candidates_of_two_bands(shape, window, engine=engine) < 12


def test_two_bands_stay_in_strips_when_new_subwindows_are_to_have_another_structure(monkeypatch):
    monkeypatch.setattr(cpu, "RECONSIDER", 1000)
    monkeypatch.setattr(cpu, "follow", lambda seen: ("wib", "for once"))
    assert candidates_of_two_bands("uniform", 16_000, batch=1000, order="inner") < 12


@pytest.mark.parametrize("window", [1 << 12, 1 << 14, 1 << 16])
@pytest.mark.parametrize("batch", [1000, 4096])
@pytest.mark.parametrize("order", ["outer", "none"])
@pytest.mark.parametrize("shape", ["uniform", "skewed", "rising", "falling"])
def test_two_bands_in_many_batches_look_at_few_candidates(shape, order, batch, window):
    # Cells are made anew where values move, but only when many are crowded.
    most = 20 if order == "none" and shape in ("rising", "falling") else 6
    assert candidates_of_two_bands(shape, window, batch=batch, order=order) < most


def test_two_bands_where_values_jump_are_split_anew():
    assert candidates_of_two_bands("jumping", 1 << 16, batch=1000, order="outer") < 10


@pytest.mark.parametrize("window", [1 << 12, 1 << 14])
@pytest.mark.parametrize("wide", [0.0, 0.001])
def test_bounds_of_two_columns_are_compared_with_few(wide, window):
    """Upper bounds need not rise with the lower ones, and a few of them may be far away."""
    rng = np.random.default_rng(window)
    count, unit = 3 * window, (1 << 28) // window
    x, a = rng.integers(0, 1 << 28, (2, count))
    widths = np.where(rng.random(count) < wide, 1 << 27, rng.integers(0, 4 * unit, count))
    r = pa.table({"x": x.astype(np.int32)})
    s = pa.table({"a": a.astype(np.int32), "c": (a + widths).astype(np.int32)})
    query = Query(
        r.schema, s.schema, "r.x BETWEEN s.a AND s.c", rows(window), rows(window),
        order=Order("outer"),
    )  # fmt: skip
    report = counters(query, r, s, batch=4096)
    assert report["results"] > count
    # Sixteen are looked at at a time.
    assert report["comparisons"] < 20 * (report["results"] + report["tuples"])


@pytest.mark.parametrize("span", [rows(256), time(256)])
@pytest.mark.parametrize("order", ["outer", "none"])
def test_what_comes_at_once_meets_no_more_than_windows_hold(order, span):
    count = 1 << 15
    rng = np.random.default_rng(3)
    r, s = (
        pa.table(
            {
                "ts": np.arange(count),
                name: rng.integers(0, 1 << 20, count).astype(np.int32),
            }
        )
        for name in "xa"
    )
    query = Query(
        r.schema, s.schema, "abs(r.x - s.a) <= 400", span, span,
        time=("ts", "ts"), order=Order(order),
    )  # fmt: skip
    whole = counters(query, r, s, batch=1 << 15, engine="bisort")
    pieces = counters(query, r, s, batch=4096, engine="bisort")
    assert whole["results"] == pieces["results"]
    assert whole["comparisons"] < 1.1 * pieces["comparisons"]


def counters(query, r, s, *, batch, **options):
    with CpuDevice(threads=1, **options) as device:
        sources = ([ArrowSource(one, name="t")] for one in (r, s))
        for _ in Session(query, *sources, device, batch=batch):
            pass
        return device.counters()


def candidates_of_two_bands(shape, window, *, order="none", batch=1 << 16, **options):
    """Join with ten partners on average; return candidates per tuple and pair.

    The constant they are compared with is ours; that it holds at every size is the point.
    """
    rng = np.random.default_rng(window)
    count = 3 * window
    moves = shape in ("rising", "falling", "jumping")
    other = "uniform" if moves else shape
    x, a = (1000 * moving(rng, shape, count) for _ in range(2))
    y, b = (1000 * column(rng, other, count) for _ in range(2))
    r, s = (
        pa.table({name: values.astype(np.int32) for name, values in columns.items()})
        for columns in ({"x": x, "y": y}, {"a": a, "b": b})
    )
    share, back = np.sqrt(10 / window), rng.integers(1, window, window)
    here = rng.integers(window, count, window)
    reach = [
        max(1, int(np.quantile(np.abs(one[here] - two[here - back]), share)))
        for one, two in ((x, a), (y, b))
    ]
    on = f"abs(r.x - s.a) <= {reach[0]} AND abs(r.y - s.b) <= {reach[1]}"
    query = Query(r.schema, s.schema, on, rows(window), rows(window), order=Order(order))
    report = counters(query, r, s, batch=batch, **options)
    assert report["results"] > count
    return report["comparisons"] / (report["results"] + report["tuples"])
