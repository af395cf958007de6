"""BI-Sort: the insertion buffer's boundaries, and what a sealed one keeps."""

import numpy as np
import pytest

from eddyline.engine.structure import Structure
from tests.host.engine.model import CORNERS, LAST, Checked

BUFFER = 8


@pytest.mark.parametrize("before", range(BUFFER + 1))
@pytest.mark.parametrize("size", [1, BUFFER - 1, BUFFER, BUFFER + 1])
@pytest.mark.parametrize("intervals", [False, True])
def test_batches_meet_the_buffers_end(before, size, intervals):
    one = Checked(Structure("bisort", capacity=64, buffer=BUFFER, intervals=intervals))
    for count in (before, size, size, 3):
        low = np.resize(CORNERS, count)
        one.insert(low, np.maximum(low, np.uint32(2**31)) if intervals else None)
        one.check(CORNERS, np.full(len(CORNERS), LAST, np.uint32))


def test_a_buffer_is_merged_only_when_it_is_full():
    """What lies in the main array is one record, what lies in the buffer another."""
    one = Structure("bisort", capacity=64, buffer=4)
    records = []
    for number in range(5):
        one.insert(np.full(3, 7), np.arange(3) + 3 * number)
        found = one.probe(np.array([7]))
        assert found.pairs == 3 * (number + 1)
        records.append(found.records)
    assert records == [1, 2, 2, 2, 2]


@pytest.mark.parametrize("batch", [64, 5000, None])
def test_a_sealed_array_keeps_nothing_but_tuples_and_index(batch):
    count = 100_000
    one = Structure("bisort", capacity=count, buffer=1024)
    one.insert(np.random.default_rng(1).integers(0, 2**32, count), np.arange(count), batch=batch)
    one.seal()
    assert one.report()["bytes"] / count == pytest.approx(8 + 4 / 16, rel=0.01)


def test_a_lookup_of_a_range_is_one_record():
    one = Structure("bisort", capacity=1000, buffer=0)
    one.insert(np.arange(1000), np.arange(1000), batch=100)
    found = one.probe(np.array([0, 10, 2000]), np.array([LAST, 500, 3000]))
    assert (found.pairs, found.records) == (1000 + 491, 2)
