"""The hash ring: what has expired is not found, places are used again, and it grows."""

import numpy as np
import pytest

from eddyline.engine.structure import Structure
from tests.host.engine.model import Checked


@pytest.mark.parametrize("origin", [0, 2**32 - 200])
@pytest.mark.parametrize("different", [1, 7, 1000])
def test_a_sliding_window_goes_round_the_ring(origin, different):
    """Refs are the low bits of sequence numbers, and wrap."""
    random = np.random.default_rng(different)
    one = Checked(Structure("hash", capacity=64), origin=origin)
    for _ in range(60):
        one.insert(random.integers(0, different, random.integers(0, 20), dtype=np.uint32))
        one.expire(max(0, len(one.low) - one.first - 40))
        one.check(random.integers(0, different, 10, dtype=np.uint32))
    assert len(one.low) > 4 * 64
    assert one.structure.report()["bytes"] == 64 * (12 + 2 * 4)


def test_it_grows_while_it_wraps():
    random = np.random.default_rng(1)
    one = Checked(Structure("hash", capacity=16))
    for size in (10, 3, 9, 2, 40, 1, 300, 7):
        one.expire((len(one.low) - one.first) // 3)
        one.insert(random.integers(0, 20, size, dtype=np.uint32))
        one.check(np.arange(21, dtype=np.uint32))


def test_all_can_expire():
    one = Checked(Structure("hash", capacity=16))
    one.insert(np.arange(10, dtype=np.uint32))
    one.expire(10)
    one.check(np.arange(10, dtype=np.uint32))
    one.insert(np.arange(5, dtype=np.uint32))
    one.check(np.arange(10, dtype=np.uint32))
