"""What a unit hands over to Spark in a micro-batch has a limit, which is told before it is met."""

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from eddyline.biclique.envelope import pack
from eddyline.errors import DataError
from eddyline.plan import Window
from eddyline.spark import outgoing
from eddyline.spark.distinct import TIME, Deduplicator, _Rule
from tests.spark.joining import Checkpoint, State, query_of, request_of

SAYS = "more than 20000 bytes of results in one micro-batch.* maxFilesPerTrigger.* more units"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(outgoing, "MOST", 20_000)


def rows(first: int, count: int) -> list[tuple[int, int, int]]:
    return [(n, n, first) for n in range(first, first + count)]


@pytest.mark.parametrize("window", ["time:1s", "rows:99"])
def test_results_of_a_unit(window):
    """Three batches are let through, and one of three times as many rows is not."""
    request, checkpoint = request_of(query_of("r.x = s.x", window)), Checkpoint()

    def batch(now: int, count: int) -> list[tuple]:
        some = rows(now + 1, count)
        found = checkpoint.batch(request, some, some, now)
        return found + checkpoint.batch(request, [], [], now + 500)

    for now in (0, 1000, 2000):
        assert len(batch(now, 30)) == 30 * 30
    with pytest.raises(DataError, match=SAYS):
        batch(3000, 90)


def test_late_rows_of_a_unit():
    request = request_of(query_of("r.x = s.x", "time:1s"), late="late")
    with pytest.raises(DataError, match=SAYS):
        Checkpoint().batch(request, rows(1, 2000), [], 10**6)


SCHEMA = pa.schema([("r", pa.int64()), (TIME, pa.timestamp("ms", "UTC"))])


def deduplicator() -> Deduplicator:
    request = request_of(query_of("r.x = s.x", "unbounded"))
    request = replace(request, distinct=Window("unbounded"))
    made = Deduplicator(_Rule(request, SCHEMA, ("r",), by_time=True))
    made.init(State())
    return made


def sent(first: int, count: int, *, late: bool = False) -> SimpleNamespace:
    numbers = pa.array(range(first, first + count))
    columns = [numbers, numbers.cast(SCHEMA.field(TIME).type)]
    return SimpleNamespace(
        late=late, payload=pack(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    )


def at(watermark: int) -> SimpleNamespace:
    return SimpleNamespace(getCurrentWatermarkInMs=lambda: watermark)


@pytest.mark.parametrize("late", [False, True])
def test_results_that_equal_none_before(late):
    bucket = deduplicator()
    for begin in (0, 900):
        assert list(bucket.handleInputRows((0,), [sent(begin, 900, late=late)], at(9999)))
    some = [sent(begin, 900, late=late) for begin in (2000, 3000)]
    with pytest.raises(DataError, match=SAYS):
        list(bucket.handleInputRows((0,), some, at(9999)))


def test_results_of_all_buckets_that_have_waited():
    """Spark takes together what timers give that expire in one task."""
    bucket, given = deduplicator(), []
    for begin in (0, 900):
        assert not list(bucket.handleInputRows((0,), [sent(begin, 900)], at(-1)))
    given += bucket.handleExpiredTimer((0,), at(800), None)
    assert given
    with pytest.raises(DataError, match=SAYS):
        list(bucket.handleExpiredTimer((0,), at(9999), None))
