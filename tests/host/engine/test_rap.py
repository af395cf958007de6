"""RaP-Table: room for every skew, and splitters that follow the tuples."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.device.cpu import CpuDevice
from eddyline.engine.structure import Structure
from eddyline.io.source import ArrowSource
from eddyline.plan import Order
from eddyline.query import Query
from eddyline.query.window import rows, time, unbounded
from eddyline.session import Session
from eddyline.streams import PanJoin
from tests.host.engine.model import LAST


def resident() -> int:
    """Return the bytes of this process that are not those of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(one.split()[1]) for one in lines if one.startswith("RssAnon"))


def test_what_is_not_used_of_a_large_table_takes_no_memory():
    before = resident()
    table = Structure("rap", capacity=10_000_000, partitions=10_000_000 // 64)
    table.insert(np.arange(100) * 2**25, np.arange(100))
    assert table.report()["bytes"] > 200 << 20
    assert resident() - before < 30 << 20


def entries_as_printed(counts, capacity, sigma):
    """Return the entries of PanJoin's LLAT: an entry that is full gets a successor at once."""
    width = int(capacity * sigma / len(counts))
    return sum(1 + count // width for count in counts)


def test_twice_as_many_entries_as_partitions_hold_every_skew():
    """N = 100, P = 64: 1.95 tuples per entry, which must not be rounded down."""
    assert entries_as_printed([100] + [0] * 63, 100, 1.25) > 2 * 64
    for stride in (0, 1, 2**26, 2**26 + 1, 2**27):
        table = Structure("rap", capacity=100, partitions=64, sigma=1.25)
        table.insert(np.arange(100) * stride % 2**32, np.arange(100))
        report = table.report()
        assert report["width"] == 2
        assert report["entries"] <= 2 * 64


@given(data=st.data(), sigma=st.sampled_from([1.01, 1.1, 1.25, 2.0]))
def test_entries_suffice(data, sigma):
    partitions = data.draw(st.integers(1, 40))
    capacity = data.draw(st.integers(1, 200))
    keys = data.draw(st.lists(st.integers(0, LAST), max_size=capacity))
    table = Structure("rap", capacity=capacity, partitions=partitions, sigma=sigma)
    table.insert(np.array(keys, np.uint32), np.arange(len(keys)), batch=7)
    assert table.report()["entries"] <= 2 * partitions


def histograms(keys, splitters):
    """Return count, least and largest of each partition: above a splitter, up to the next."""
    place = np.searchsorted(splitters, keys, "left")
    parts = [keys[place == number] for number in range(len(splitters) + 1)]
    return [(len(p), int(p.min()) if len(p) else 0, int(p.max()) if len(p) else 0) for p in parts]


def algorithm_1(parts, *, first=1, with_least=True, stop=True):
    """Model algorithm 1; without options as mended, with them as printed."""
    total, splitters, before, j = sum(part[0] for part in parts), [], 0, first
    share = total / len(parts)
    for count, least, largest in parts:
        after = before + count
        if before < share * j <= after:
            while share * j <= after and (j < len(parts) or not stop):
                into = (share * j - before) / count * (largest - least)
                splitters.append(int(into) + (least if with_least else 0))
                j += 1
        before = after
    return splitters


def error(keys, splitters):
    counts = np.bincount(np.searchsorted(splitters, keys, "left"), minlength=len(splitters) + 1)
    return np.abs(counts - counts.mean()).mean() / counts.mean()


def drawn(count):
    return np.random.default_rng(1).normal(2**31, 2**26, count).astype(np.uint32)


EVEN = np.arange(1, 16) * 2**28


def test_algorithm_1_as_printed_yields_nothing():
    """Its j begins at 0, and 0 lies in no half-open range of sums."""
    assert algorithm_1(histograms(drawn(1000), EVEN), first=0) == []


def test_algorithm_1_as_printed_yields_one_splitter_too_many():
    parts = histograms(drawn(1000), EVEN)
    assert len(algorithm_1(parts)) == 15
    assert len(algorithm_1(parts, stop=False)) == 16


def test_algorithm_1_as_printed_leaves_the_range_of_the_tuples():
    """A distance into a partition is no value: its least one is missing."""
    keys = drawn(10_000)
    splitters = np.sort(algorithm_1(histograms(keys, EVEN), with_least=False))
    assert splitters.max() < keys.min()
    assert error(keys, splitters) > 1.8
    assert error(keys, algorithm_1(histograms(keys, EVEN))) < 1


@pytest.mark.parametrize("count", [16, 1000, 30_000])
def test_native_splitters_are_those_of_the_model(count):
    keys, splitters = drawn(count), EVEN
    for _ in range(4):
        table = Structure("rap", capacity=count, partitions=16, splitters=splitters)
        table.insert(keys, np.arange(count))
        balance = table.balance()
        parts = histograms(keys, splitters)
        assert balance.counts.tolist() == [part[0] for part in parts]
        assert balance.splitters.tolist() == algorithm_1(parts)
        assert balance.error == pytest.approx(error(keys, splitters))
        splitters = balance.splitters


DISTRIBUTIONS = [
    ("uniform", 1.0, 1),
    ("uniform", 0.1, 1),
    ("uniform", 0.1, 4),
    ("uniform", 0.001, 16),
    ("normal", 0.05, 1),
    ("normal", 0.01, 4),
    ("normal", 0.001, 16),
    ("ranksize", 0.01, 1),
]


def adjusted(distribution, spread, modes, *, count=1 << 17, partitions=1024):
    """Return the error before and after each of three adjustments, and of exact quantiles."""
    rows = 4 * count
    stream = PanJoin(rows, seed=3, distribution=distribution, spread=spread, modes=modes)
    errors, splitters, before = [], None, None
    for batch in stream.batches("r", count):
        keys = batch["value"].to_numpy()
        table = Structure("rap", capacity=count, partitions=partitions, splitters=splitters)
        table.insert(keys, np.arange(count))
        errors.append(table.balance().error)
        splitters = table.balance().splitters
        if before is not None:
            quantiles = np.sort(before)[np.arange(1, partitions) * count // partitions]
        before = keys
    return errors, error(keys, quantiles)


@pytest.mark.parametrize(("distribution", "spread", "modes"), DISTRIBUTIONS)
def test_three_adjustments_suffice(distribution, spread, modes):
    """Figure 10f. What is left is what exact quantiles leave: chance and equal keys."""
    errors, best = adjusted(distribution, spread, modes)
    assert errors[0] > 0.9  # half of the 32-bit keys are never drawn
    assert errors[3] < 1.2 * best


def test_the_worst_case_yields_one_value_at_a_time():
    """Figure 4: each value is a P-th of the one above, so all but one stay together."""
    keys = np.array([2**32 - 1, 2**24 - 1, 2**16 - 1, 2**8 - 1, 0], np.uint32)
    largest, splitters = [], None
    for _ in range(4):
        table = Structure("rap", capacity=5, partitions=256, splitters=splitters)
        table.insert(keys, np.arange(5))
        largest.append(int(table.balance().counts.max()))
        splitters = table.balance().splitters
    assert largest == [4, 3, 2, 2]


def test_rising_values_end_up_in_one_partition():
    """Section III-B3, the known limit: the splitters are those of what came before."""
    table = Structure("rap", capacity=1000, partitions=10)
    table.insert(np.arange(1000), np.arange(1000))
    following = Structure("rap", capacity=1000, partitions=10, splitters=table.balance().splitters)
    following.insert(np.arange(1000, 2000), np.arange(1000))
    assert following.balance().counts.tolist() == [0] * 9 + [1000]


def unevenness_of_tables(window):
    """Join rows that come ever faster; return the unevenness of each full table of R.

    Subwindows follow the window, so each has another number of partitions than the one before.
    """
    count = 1 << 18
    rng = np.random.default_rng(1)
    ts = np.sort((count * rng.random(count) ** 0.7).astype(np.int64))
    r, s = (
        pa.table({"ts": ts, name: rng.normal(2**29, 2**24, count).astype(np.int32)})
        for name in ("x", "a")
    )
    on = "abs(r.x - s.a) <= 50"
    query = Query(r.schema, s.schema, on, window, window, time=("ts", "ts"), order=Order("outer"))
    errors, sealed = [], 0
    with CpuDevice(engine="rap", threads=1) as device:
        sources = ([ArrowSource(one, name="test")] for one in (r, s))
        for _ in Session(query, *sources, device, batch=2048):
            report = device.counters()
            if report["sealed_r"] > sealed:
                sealed = report["sealed_r"]
                errors.append(report["unevenness_r"] / 1e6)
    return errors


@pytest.mark.parametrize("window", [rows(1 << 17), time(1 << 17), unbounded()])
def test_tables_are_even_however_many_partitions_each_has(window):
    errors = unevenness_of_tables(window)
    assert len(errors) >= 3
    assert max(errors) < 0.2
