"""On a million rows, where the definition is too slow, engines agree with each other and DuckDB."""

from functools import cache

import numpy as np
import pytest

import eddyline
from bench.peers import workloads
from bench.peers.duckdb_peer import DuckDB
from bench.peers.ours import encoded
from bench.peers.workloads import Workload
from eddyline.device.cpu import CpuDevice
from eddyline.plan import Order
from eddyline.query import Query

pytestmark = pytest.mark.slow
ROWS, WINDOW, BATCH = 1 << 20, 1 << 18, 1 << 16


@cache
def workload(name: str) -> Workload:
    return getattr(workloads, name)(ROWS, WINDOW)


def mixed(i: np.ndarray, j: np.ndarray) -> int:
    """Return a sum over pairs that tells their set, in any order."""
    z = i.astype(np.uint64) << np.uint64(32) | j.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return int((z ^ (z >> np.uint64(31))).sum())


@cache
def by_duckdb(name: str) -> tuple[int, int]:
    found = DuckDB().prepare(workload(name)).run()
    return found.num_rows, mixed(found["i"].to_numpy(), found["j"].to_numpy())


@pytest.mark.parametrize(
    ("name", "engine", "order"),
    [("band", engine, "none") for engine in ("bisort", "rap", "wib", "grid")]
    + [("band", engine, "outer") for engine in ("bisort", "rap")]
    + [("equality", "hash", order) for order in ("none", "outer")],
)
def test_a_million_rows_give_the_pairs_that_duckdb_finds(name, engine, order):
    work = workload(name)
    window = eddyline.rows(WINDOW)
    query = Query(work.r.schema, work.s.schema, work.on, window, window, order=Order(order))
    count = total = 0
    with CpuDevice(engine=engine) as device:
        device.configure(query.plan)
        for batch in encoded(work, BATCH):
            device.push(batch)
            while not (part := device.pull()).nothing:
                count += len(part)
                total += mixed(part.r_id, part.s_id)
    assert count > ROWS
    assert (count, total % 2**64) == by_duckdb(name)
