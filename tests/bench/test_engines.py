"""The comparison of engines measures what it says."""

import numpy as np
import pyarrow as pa
import pytest

from bench.engines import compared
from bench.peers.numpy_peer import Numpy
from bench.peers.ours import Device, Ranges, encoded
from bench.peers.participant import Job
from bench.peers.workloads import Workload, band

WORK = band(300, 64)


class Forgetful(Numpy):
    """A peer that leaves a pair out."""

    def prepare(self, work: Workload) -> Job:
        right = super().prepare(work).run
        return Job(lambda: right().slice(1))


def test_peers_have_to_find_what_we_find() -> None:
    assert len(list(compared(WORK, [Ranges(batch=64), Numpy(), Numpy(comparisons=1000)]))) == 4
    with pytest.raises(AssertionError, match="numpy nested loop finds"):
        list(compared(WORK, [Forgetful()]))


@pytest.mark.parametrize("batch", [1, 2, 3, 64, 1000])
def test_a_batch_has_as_many_tuples_as_it_says_from_both_sides_in_turns(batch: int) -> None:
    batches = encoded(WORK, batch)
    assert {len(one) for one in batches[:-1]} <= {batch}
    assert np.concatenate([one.sides for one in batches]).tolist() == [0, 1] * WORK.rows
    assert all(len(one.s) == one.sides.sum() == len(one) - len(one.r) for one in batches)


@pytest.mark.parametrize("batch", [1, 3])
def test_pairs_do_not_depend_on_batches(batch: int) -> None:
    def pairs(table: pa.Table) -> list:
        return sorted(zip(*(table[name].to_pylist() for name in "ij"), strict=True))

    whole, small = (Device(batch=n).prepare(WORK).run() for n in (1 << 16, batch))
    assert pairs(small) == pairs(whole) != []
