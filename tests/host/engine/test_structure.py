"""Every structure finds what comparing every pair finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.engine.structure import Structure
from tests.host.engine.model import CORNERS, ENGINES, LAST, RANGED, Checked, live

KEYS = st.sampled_from([int(key) for key in CORNERS]) | st.integers(0, LAST)


@st.composite
def batches(draw, *, points):
    """Draw intervals, or values."""
    keys = draw(st.lists(st.tuples(KEYS, KEYS), max_size=20))
    low = np.array([min(pair) for pair in keys], np.uint32)
    return low, None if points else np.array([max(pair) for pair in keys], np.uint32)


@pytest.mark.parametrize("engine", ENGINES)
def test_random_lives(engine):
    for seed in range(150):
        live(engine, seed)


def test_a_plain_tree_finds_the_same():
    """The peer of figure 11f, with few and with many equal keys, over several levels."""
    random = np.random.default_rng(1)
    for different in (1, 40, 2**32):
        one = Checked(Structure("btree", capacity=1))
        for size in (0, 1, 31, 33, 500, 3000):
            one.insert(random.integers(0, different, size, dtype=np.uint32))
            low = random.integers(0, different, 60, dtype=np.uint32)
            one.check(low)
            one.check(low, np.maximum(low, random.choice(CORNERS, 60)))


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60)
@given(data=st.data())
def test_a_structure_finds_what_comparing_every_pair_finds(engine, data):
    hashed = engine == "hash"
    intervals = not hashed and data.draw(st.booleans(), "intervals")
    one = Checked(
        Structure(
            engine,
            capacity=data.draw(st.integers(1, 40), "capacity"),
            partitions=data.draw(st.integers(1, 8), "partitions"),
            buffer=data.draw(st.integers(0, 24), "buffer"),
            intervals=intervals,
        )
    )
    for batch in data.draw(st.lists(batches(points=not intervals), max_size=6), "inserted"):
        one.insert(*batch)
    lookups = data.draw(batches(points=hashed), "looked up")
    one.check(*lookups)
    one.structure.seal()
    one.check(*lookups)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("batch", [1, 1000, 70_000, None])
def test_counts_of_many_tuples_are_those_of_a_sorted_array(engine, batch):
    count = 200_000 if batch == 1 else 2_000_000
    if engine == "bisort" and batch == 1:
        count = 20_000  # a merge for every buffer
    random = np.random.default_rng(count)
    keys = random.integers(0, 2**32, count, dtype=np.uint32) & ~np.uint32(0xFFF)
    structure = Structure(engine, capacity=count, partitions=count // 64, threads=2)
    structure.insert(keys, np.arange(count), batch=batch)
    ordered = np.sort(keys)
    low = random.choice(keys, 50_000)
    high = low
    if engine != "hash":
        width = random.integers(0, 2**32 * 20 // count, len(low))
        high = np.minimum(low + width, LAST).astype(np.uint32)
    found = structure.probe(low, high, batch=batch)
    expected = np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")
    assert found.pairs == expected.sum()


@pytest.mark.parametrize("engine", RANGED)
def test_counts_of_many_intervals_are_those_of_sorted_bounds(engine):
    count = 1_000_000
    random = np.random.default_rng(1)
    low = random.integers(0, 2**32 - 2**14, count, dtype=np.uint32)
    high = low + random.integers(0, 2**14, count, dtype=np.uint32) // (
        1 if engine != "bisort" else 2**14
    )
    structure = Structure(engine, capacity=count, intervals=True, threads=2)
    structure.insert(low, np.arange(count), high, batch=100_000)
    starts = random.integers(0, 2**32 - 2**14, 20_000, dtype=np.uint32)
    ends = starts + np.uint32(5000)
    expected = np.searchsorted(np.sort(low), ends, "right")
    expected -= np.searchsorted(np.sort(high), starts, "left")
    assert structure.probe(starts, ends).pairs == expected.sum()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_structure_finds_nothing(engine):
    one = Checked(Structure(engine, capacity=1))
    one.check(CORNERS)
    one.insert(np.empty(0, np.uint32))
    one.check(np.empty(0, np.uint32))
    one.structure.seal()
    one.check(CORNERS)


def test_what_cannot_be_built_is_refused():
    with pytest.raises(ValueError, match="known: bisort, rap, wib, hash"):
        Structure("trie", capacity=1)
    with pytest.raises(ValueError, match="values, not intervals"):
        Structure("hash", capacity=1, intervals=True)
    with pytest.raises(ValueError, match="a wib has no splitters"):
        Structure("wib", capacity=1).balance()
