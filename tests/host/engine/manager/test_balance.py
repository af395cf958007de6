"""ScaleJoin's property: every worker does its share of the comparisons, whatever comes."""

import numpy as np
import pyarrow as pa
import pytest

from eddyline.api import make_query
from eddyline.device import Tuples
from eddyline.device.cpu import CpuDevice
from eddyline.engine.manager import ManagedJoin, TupleSharing
from eddyline.engine.nested_join import NestedLoopJoin
from eddyline.io.source import ArrowSource
from eddyline.plan import Window
from eddyline.session import Session
from eddyline.streams import RATES, ScaleJoin
from tests.host.engine.draws import pulled
from tests.host.twin.joins import BAND, plan, tuples

WORKERS = 4


class SingleCounter(TupleSharing):
    """Both sides counted as one, as in the paper's listing."""

    def owners(self, tuples: Tuples, first: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        places = (sum(first) + np.arange(len(tuples))) % WORKERS
        return places[tuples.sides == 0], places[tuples.sides == 1]


def unevenness(counts: list[int]) -> float:
    """Return how far the worst worker is from an even share, as a part of that."""
    even = sum(counts) / len(counts)
    return max(abs(count - even) for count in counts) / even


def compared(sides: str, sharing, crew, window: int = 200) -> list[int]:
    """Return the comparisons of each worker, which compares every pair."""
    kept = Window("rows", window)
    one = plan(BAND, kept, kept)
    with ManagedJoin(one, share=sharing, engine="nested", batch=64, crew=crew) as join:
        join.push(tuples(BAND, sides, 1))
        pulled(join)
        return [status.comparisons for status in join.status()]


@pytest.mark.parametrize("pattern", RATES)
def test_comparisons_are_shared_evenly(hired, monkeypatch, pattern):
    """The paper's case studies, figure 8: one to four physical streams, steady or not."""
    streams = ScaleJoin(5, seed=1, pattern=pattern)
    tables = {name: pa.Table.from_batches(streams.batches(name)) for name in streams.streams}
    r, s = (
        [ArrowSource(table, name=name) for name, table in tables.items() if name[0] == side]
        for side in "rs"
    )

    def on_hired_workers(plan, *, workers, **options):
        return ManagedJoin(plan, crew=hired(workers), **options)

    monkeypatch.setattr("eddyline.engine.manager.ManagedJoin", on_hired_workers)
    query = make_query(r[0].schema, s[0].schema, streams.on, window="time:1s", time="ts")
    with CpuDevice(workers=WORKERS, sharing="tuples", engine="nested", threads=1) as device:
        pairs = sum(batch.num_rows for batch in Session(query, r, s, device))
        counters = device.counters()
    each = [counters[f"comparisons_{place}"] for place in range(WORKERS)]
    assert counters["results"] == pairs
    assert sum(each) == counters["comparisons"] > 5_000_000
    assert unevenness(each) < 0.05


@pytest.mark.parametrize("sides", ["rsss", "rs", "rrrrs", "r" * 30 + "s" * 10])
def test_sides_may_come_in_any_pattern(hired, sides):
    assert unevenness(compared(sides * (2400 // len(sides)), "tuples", hired(WORKERS))) < 0.05


def test_values_may_be_skewed(hired):
    """Everything matches everything, and the work is the same."""
    kept = Window("rows", 200)
    one = plan("TRUE", kept, kept)
    with ManagedJoin(one, share="tuples", engine="nested", batch=256, crew=hired(WORKERS)) as join:
        join.push(tuples("TRUE", "rs" * 600, 1))
        pulled(join)
        assert unevenness([status.comparisons for status in join.status()]) < 0.05


def test_workers_together_compare_what_one_compares(hired):
    sides = "rsssr" * 300
    kept = Window("rows", 200)
    whole = tuples(BAND, sides, 1)
    one = NestedLoopJoin(plan(BAND, kept, kept))
    one.push(whole)
    assert sum(compared(sides, "tuples", hired(WORKERS))) == one.report()["comparisons"]


def test_a_single_counter_for_both_sides_would_not_do(hired):
    """With RSSS and four workers, one gets all of R, and nothing of S."""
    counts = compared("rsss" * 600, SingleCounter(WORKERS), hired(WORKERS))
    assert unevenness(counts) > 0.3
    assert sum(counts) == sum(compared("rsss" * 600, "tuples", hired(WORKERS)))
