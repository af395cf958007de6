"""Cells for bands against sorted subwindows, on tens of thousands of rows."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from eddyline.device import Tuples
from eddyline.device.cpu import CpuDevice
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.io.source import ArrowSource
from eddyline.query import Query
from eddyline.query.window import rows, time, unbounded
from eddyline.session import Session
from tests.host.twin.joins import parts

COUNT = 30_000
BANDS = "abs(r.x - s.a) <= 200 AND abs(r.y - s.b) <= 200"
WINDOWS = {"rows": rows(9000), "time": time(15_000), "unbounded": unbounded()}


def uniform(rng, count):
    return rng.uniform(0, 1e5, count), rng.uniform(-1e5, 1e5, count)


def together(rng, count):
    x = rng.uniform(0, 1e5, count)
    return x, x + rng.normal(0, 50, count)


def rising(rng, count):
    x = np.arange(count) * 5.0
    return x + rng.uniform(0, 9000, count), -x + rng.uniform(0, 9000, count)


def falling(rng, count):
    return tuple(-column for column in rising(rng, count))


def jumping(rng, count):
    """Far away from what was seen first, and denser."""
    x, y = uniform(rng, count)
    late = np.arange(count) > count // 2
    return np.where(late, 1e9 + x / 9, x), np.where(late, y / 9, y)


def crowded(rng, count):
    """Half of R has one value that nobody looks for."""
    x, y = uniform(rng, count)
    return np.where(rng.random(count) < 0.5, -1e6, x), y


def symbols(rng, count):
    """Five values of x, farther apart than a band: that dimension has nothing to cut."""
    return rng.integers(0, 5, count) * 10_000.0, rng.uniform(-1e7, 1e7, count)


def heavy(rng, count):
    """Most of y is a few values."""
    x, _ = uniform(rng, count)
    return 1000 * x, np.minimum(rng.zipf(1.5, count), 10**5) * 1000.0


SPREAD = [uniform, together, rising, falling, jumping, crowded]
TIED = [symbols, heavy]  # for two bands: with one, all would match


def table(rng, shape, names, *, wide: float = 0.0) -> pa.Table:
    x, y = shape(rng, COUNT)
    far = rng.random(COUNT) < wide
    return pa.table(
        {
            "id": np.arange(COUNT, dtype=np.int32),
            "ts": np.sort(rng.integers(0, 2 * COUNT, COUNT)),
            names[0]: x.astype(np.int64 if shape is jumping else np.int32),
            names[1]: y.astype(np.float32),
            "top": (x + np.where(far, 1e5, rng.uniform(0, 9, COUNT))).astype(np.int64),
        }
    )


def joined(
    query: Query, r: pa.Table, s: pa.Table, *, batch: int = 1 << 14, **options
) -> tuple[np.ndarray, dict]:
    """Return the pairs, sorted, and the counters."""
    with CpuDevice(**options) as device:
        sources = [[ArrowSource(one, name="test")] for one in (r, s)]
        parts = list(Session(query, *sources, device, batch=batch))
        counters = device.counters()
    found = [np.concatenate([part[name].to_numpy() for part in parts]) for name in "ij"]
    pairs = found[0].astype(np.int64) << 32 | found[1]
    return np.sort(pairs), counters


def query_of(on: str, r: pa.Table, s: pa.Table, window: str) -> Query:
    span = WINDOWS[window]
    ts = ("ts", "ts") if window == "time" else None
    return Query(r.schema, s.schema, on, span, span, time=ts, select="r.id AS i, s.id AS j")


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("on", "shape"),
    [
        *itertools.product(["abs(r.x - s.a) <= 4", "r.x BETWEEN s.a AND s.top"], SPREAD),
        *itertools.product([BANDS], [*SPREAD, *TIED]),
    ],
)
def test_cells_find_what_sorted_subwindows_find(on, shape, window):
    rng = np.random.default_rng(len(on) + len(window))
    other = uniform if shape is crowded else shape
    r, s = table(rng, shape, "xy"), table(rng, other, "ab", wide=0.0005)
    query = query_of(on, r, s, window)
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, counters = joined(query, r, s, engine="grid", threads=2)
    assert len(found) > 100
    np.testing.assert_array_equal(found, expected)
    assert counters["results"] == len(found)


@pytest.mark.parametrize(
    ("on", "shape"),
    [("abs(r.x - s.a) <= 4", shape) for shape in SPREAD]
    + [(BANDS, shape) for shape in (*SPREAD, *TIED)],
)
def test_few_tuples_are_looked_at(on, shape):
    rng = np.random.default_rng(1)
    r, s = table(rng, shape, "xy"), table(rng, uniform if shape is crowded else shape, "ab")
    found, counters = joined(query_of(on, r, s, "rows"), r, s, engine="grid", threads=1)
    each = (
        400 if shape in (rising, falling, jumping) else 40
    )  # cells are made anew when many are crowded
    assert counters["comparisons"] < 8 * len(found) + each * counters["tuples"]


@pytest.mark.parametrize(
    "on", ["abs(r.x - s.a) <= 2000", "abs(r.x - s.a) <= 9000 AND abs(r.y - s.b) <= 40000"]
)
def test_where_there_are_many_pairs(on):
    """Cells give way to ranges where one band finds many."""
    rng = np.random.default_rng(2)
    r, s = table(rng, uniform, "xy"), table(rng, uniform, "ab")
    query = query_of(on, r, s, "rows")
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, _ = joined(query, r, s, threads=1)
    assert len(found) > 64 * 2 * COUNT
    np.testing.assert_array_equal(found, expected)


def with_bands(s: pa.Table, widths: np.ndarray) -> pa.Table:
    top = s["a"].to_numpy() + widths.astype(np.int64)
    return s.set_column(s.schema.get_field_index("top"), "top", pa.array(top))


MOST_BYTES = 16 << 20  # the windows of this module have less than one


@pytest.mark.parametrize("threads", [1, 2])
def test_bands_that_cover_much_take_no_more_memory_than_others(threads):
    """What a tuple looks at is written down: a bounded part of it, however much there is."""
    rng = np.random.default_rng(6)
    r, s = table(rng, uniform, "xy"), table(rng, uniform, "ab")
    s = with_bands(s, np.where(np.arange(COUNT) < COUNT - 1000, 9, 100_000))
    query = query_of("r.x BETWEEN s.a AND s.top", r, s, "rows")
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, counters = joined(query, r, s, batch=1 << 16, engine="grid", threads=threads)
    assert len(found) > 1000 * 4000
    np.testing.assert_array_equal(found, expected)
    assert counters["bytes"] < MOST_BYTES


@pytest.mark.parametrize("threads", [1, 2])
def test_many_pairs_of_two_bands_take_no_more_memory_than_few(threads):
    rng = np.random.default_rng(7)
    r, s = table(rng, uniform, "xy"), table(rng, uniform, "ab")
    query = query_of("abs(r.x - s.a) <= 9000 AND abs(r.y - s.b) <= 40000", r, s, "rows")
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, counters = joined(query, r, s, batch=1 << 16, engine="grid", threads=threads)
    assert len(found) > 500 * COUNT
    np.testing.assert_array_equal(found, expected)
    assert counters["bytes"] < MOST_BYTES


def test_a_few_wide_bands_do_not_widen_every_lookup():
    rng = np.random.default_rng(8)
    r, s = table(rng, uniform, "xy"), table(rng, uniform, "ab")
    s = with_bands(s, np.where(rng.random(COUNT) < 0.005, 10_000, 9))
    query = query_of("r.x BETWEEN s.a AND s.top", r, s, "rows")
    found, counters = joined(query, r, s, engine="grid", threads=1)
    assert counters["comparisons"] < 8 * len(found) + 40 * counters["tuples"]


def test_a_band_that_goes_far_beyond_all_values_is_not_compared_with_everyone():
    """Bounds out there are more ranks apart than fit into 32 bits when they are multiplied."""
    rng = np.random.default_rng(10)
    r, s = (
        pa.table(
            {
                "id": np.arange(COUNT, dtype=np.int32),
                names[0]: rng.integers(0, 10, COUNT).astype(np.int32),
                names[1]: rng.integers(0, 10 * COUNT, COUNT).astype(np.int32),
            }
        )
        for names in ("xy", "ab")
    )
    query = query_of("r.x BETWEEN s.a AND s.a + 3000 AND abs(r.y - s.b) <= 9", r, s, "rows")
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, counters = joined(query, r, s, batch=1 << 11, engine="grid", threads=1)
    assert len(found) > COUNT // 10
    np.testing.assert_array_equal(found, expected)
    assert counters["comparisons"] < 8 * len(found) + 40 * counters["tuples"]


def test_a_wide_band_among_narrow_ones_is_found_from_where_it_ends():
    """How far tuples reach is known by part of the values, and a band may end in the next part."""
    rng = np.random.default_rng(9)
    r, s = table(rng, uniform, "xy"), table(rng, uniform, "ab")
    s = with_bands(s, np.where(rng.random(COUNT) < 0.02, rng.uniform(0, 600, COUNT), 1))
    query = query_of("r.x BETWEEN s.a AND s.top", r, s, "unbounded")
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, _ = joined(query, r, s, batch=512, engine="grid", threads=1)
    assert len(found) > 10_000
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_bands_of_one_width_that_others_follow(threads):
    """Cells store one bound where all bands are of one width, until some are not."""
    rng = np.random.default_rng(3)
    r, s = table(rng, uniform, "xy"), table(rng, uniform, "ab")
    top = s["a"].to_numpy().astype(np.int64) + 9
    top[COUNT // 2 :: 3] += rng.integers(0, 40, len(top[COUNT // 2 :: 3]))
    top[COUNT // 4 : COUNT // 2 : 5000] += 1
    s = s.set_column(s.schema.get_field_index("top"), "top", pa.array(top))
    query = query_of("r.x BETWEEN s.a AND s.top", r, s, "rows")
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, _ = joined(query, r, s, engine="grid", threads=threads)
    assert len(found) > 10_000
    np.testing.assert_array_equal(found, expected)


def test_bands_that_end_where_the_column_does():
    """Bounds stop there, so that these bands are narrower than others."""
    rng = np.random.default_rng(4)
    made = {}
    for name in "ra":
        values = rng.integers(-40_000, 40_000, COUNT).astype(np.int32)
        values[rng.random(COUNT) < 0.01] = 2**31 - 2
        values[rng.random(COUNT) < 0.01] = -(2**31)
        made[name] = values
    r, s = (
        pa.table({"id": np.arange(COUNT, dtype=np.int32), name: made[name]}) for name in ("r", "a")
    )
    query = query_of("abs(r.r - s.a) <= 3", r, s, "rows")
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, _ = joined(query, r, s, engine="grid", threads=1)
    assert len(found) > 10_000
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("frequent", [0.0, 0.01])
def test_cells_by_hash_find_what_sorted_subwindows_find(frequent, window, threads):
    rng = np.random.default_rng(5)
    r, s = (
        pa.table(
            {
                "id": np.arange(COUNT, dtype=np.int32),
                "ts": np.sort(rng.integers(0, 2 * COUNT, COUNT)),
                "k": np.where(rng.random(COUNT) < frequent, 7, rng.integers(0, 20_000, COUNT)),
            }
        )
        for _ in "rs"
    )
    query = query_of("r.k = s.k", r, s, window)
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    found, counters = joined(query, r, s, engine="hash", threads=threads)
    assert len(found) > 10_000
    np.testing.assert_array_equal(found, expected)
    assert counters["comparisons"] < 2 * len(found) + 40 * counters["tuples"]


@pytest.mark.parametrize("on", ["r.x = s.a", "abs(r.x - s.a) <= 4", BANDS])
def test_few_arrivals_keep_their_order_among_many(on):
    """Two threads share what is pushed at once; a few arrivals come in order, and all pairs do."""
    rng = np.random.default_rng(11)
    r, s = table(rng, uniform, "xy"), table(rng, uniform, "ab")
    query = query_of(on, r, s, "rows")
    expected, _ = joined(query, r, s, engine="bisort", threads=1)
    records = [
        SideEncoder(query.lowering.side(side), Dictionary(), side=side).encode(whole)
        for side, whole in (("r", r.to_batches()[0]), ("s", s.to_batches()[0]))
    ]
    whole = Tuples(np.tile(np.array([0, 1], np.uint8), COUNT), *records)
    found = []
    with CpuDevice(threads=2) as device:
        device.configure(query.plan)
        for piece in parts(whole, [300, 20_000, 21_000, 40_000, 40_001, 44_000]):
            device.push(piece)
            while not (part := device.pull()).nothing:
                i, j = part.r_id.astype(np.int64), part.s_id.astype(np.int64)
                found.append(i << 32 | j)
                later = np.maximum(2 * i, 2 * j + 1)
                assert len(piece) > 4000 or (np.diff(later) >= 0).all()
    assert np.array_equal(np.sort(np.concatenate(found)), expected)
