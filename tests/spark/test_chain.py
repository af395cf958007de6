"""Stored rows in chunks of a state, which here is a dictionary."""

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import DataError
from eddyline.plan import Window
from eddyline.spark.chain import Chain

SCHEMA = pa.schema([("x", pa.int64())])


class State(dict):
    updateValue = dict.__setitem__
    getValue = dict.__getitem__
    removeKey = dict.__delitem__


def rows(numbers):
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def test_rows_come_back_in_their_order_from_small_chunks():
    state = State()
    chain = Chain(state, SCHEMA, chunk_bytes=4096)
    for begin, end in ((0, 10), (10, 5000), (5000, 5003)):
        numbers = np.arange(begin, end)
        chain.add(rows(numbers), numbers)
    assert chain.read()["x"].to_pylist() == list(range(5003))
    assert len(state) >= 10  # 40 kB of numbers
    assert max(len(payload) for (payload,) in state.values()) < 3 * 4096
    again = Chain(state, SCHEMA, chunk_bytes=4096)
    again.open(chain.directory)
    assert again.rows == 5003
    assert again.read().equals(chain.read())


def test_chunks_that_nobody_can_match_are_dropped_one_by_one():
    state = State()
    chain = Chain(state, SCHEMA, chunk_bytes=4096)
    numbers = np.arange(5000)
    chain.add(rows(numbers), numbers)
    before = len(state)
    chain.drop(Window("time", 1000), 3500)
    left = chain.read()["x"].to_pylist()
    assert left == list(range(left[0], 5000))
    assert 2500 - 512 < left[0] <= 2500
    assert len(state) < before


def test_a_chunk_holds_rows_of_one_label():
    state, numbers = State(), np.arange(10)
    first = Chain(state, SCHEMA, chunk_bytes=4096, label="a")
    first.add(rows(numbers), numbers)
    then = Chain(state, SCHEMA, chunk_bytes=4096, label="b")
    then.open(first.directory)
    then.add(rows(numbers + 100), numbers + 100)
    assert then.labels == {"a", "b"}
    then.drop(Window("time", 5), 50)
    assert then.labels == {"b"}
    assert then.read()["x"].to_pylist() == (numbers + 100).tolist()


def test_few_rows_are_let_go_of_soon_after_the_window():
    """Some come much later than others of their time, and one is far ahead."""
    rng, window = np.random.default_rng(1), Window("time", 1000)
    state = State()
    chain = Chain(state, SCHEMA, chunk_bytes=1 << 20, window=window)
    for now in range(0, 10_000, 10):
        times = now + np.arange(10)
        times[:3] -= rng.integers(0, 300, 3)
        if now == 500:
            times[5] = 10**6
        chain.add(rows(times), times)
        chain.drop(window, now - 300)
        kept = chain.read()["x"].to_numpy()
        # A part of the window longer, and a batch, which is a chunk at the least.
        ended = kept[kept < now - 300 - 1000 - 100 - 300 - 10]
        assert len(ended) <= 9  # those that came with the one that is far ahead
        # What the window and the stragglers fill, and those around the one that is far ahead.
        assert len(state) <= (1000 + 300) // 100 + 4
    assert 10**6 in kept
    assert len(ended) == 9


def stored(**columns):
    """Return a chain of rows of these columns, and how to open it with others."""
    state, times = State(), np.arange(3)
    arrays = [pa.array(times, one) for one in columns.values()]
    some = pa.record_batch(arrays, names=list(columns))
    first = Chain(state, some.schema, chunk_bytes=4096)
    first.add(some, times)

    def again(schema):
        chain = Chain(state, schema, chunk_bytes=4096, name="stream r")
        chain.open(first.directory)
        return chain

    return again


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"x": pa.int64()}, "with other columns than .* now: y is not there any more. Start"),
        ({"x": pa.int64(), "y": pa.int32(), "z": pa.int8()}, "now: z is new. Start it with the"),
        ({"x": pa.float64(), "y": pa.int32()}, "stream r .* now: x was int64 and is double. Start"),
        ({"X": pa.int64(), "y": pa.int32()}, "now: X is new, x is not there any more. Start"),
    ],
)
def test_rows_of_other_columns_are_refused(columns, says):
    again = stored(x=pa.int64(), y=pa.int32())
    with pytest.raises(DataError, match=says):
        again(pa.schema(columns)).read()


def test_columns_may_change_places_and_have_nulls():
    again = stored(x=pa.int64(), y=pa.int32())
    schema = pa.schema([pa.field("y", pa.int32()), pa.field("x", pa.int64(), nullable=False)])
    assert again(schema).read().schema == schema
    assert again(schema).read().to_pydict() == {"y": [0, 1, 2], "x": [0, 1, 2]}
