"""Duplicates within a window against a loop over rows in order of time."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.biclique.distinct import firsts, require_comparable, values
from eddyline.errors import QueryError
from eddyline.plan import Window

FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), -float("nan")])
ROWS = st.lists(st.tuples(st.integers(0, 30), FLOATS, st.sampled_from([None, "", "a", "b"])))


def told(rows: list[tuple], span: int | None) -> list[tuple]:
    """Return what is handed over: per value, whatever comes later than a window after the last."""
    last: dict[tuple, int] = {}
    found = []
    for t, x, name in sorted(rows, key=lambda row: row[0]):
        value = ("nan" if x is not None and x != x else x, name)
        if value not in last or (span is not None and t - last[value] > span):
            last[value] = t
            found.append((t, *value))
    return sorted(found, key=repr)


@given(ROWS, st.sampled_from([None, 0, 1, 7, 2**62]))
def test_a_value_comes_once_per_window(rows, span):
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([row[1] for row in rows], pa.float32()),
            pa.array([row[2] for row in rows], pa.string()),
        ],
        ["x", "name"],
    )
    times = np.array([row[0] for row in rows], np.int64)
    window = Window("unbounded") if span is None else Window("time", span)
    kept = firsts(values(batch, ["x", "name"]), times, window)
    found = [
        (t, "nan" if x is not None and x != x else x, name)
        for (t, x, name), keep in zip(rows, kept.tolist(), strict=True)
        if keep
    ]
    assert sorted(((t, 0.0 if x == 0 else x, n) for t, x, n in found), key=repr) == sorted(
        ((t, 0.0 if x == 0 else x, n) for t, x, n in told(rows, span)), key=repr
    )


def test_what_was_told_before_is_told_again_and_decides():
    """A state that has lost what is too old decides as the whole history does."""
    one = np.zeros(6, np.int64)
    times = np.array([0, 4, 9, 11, 15, 25])
    window = Window("time", 8)
    assert times[firsts(one, times, window)].tolist() == [0, 9, 25]
    assert times[2:][firsts(one[2:], times[2:], window)].tolist() == [9, 25]


def test_values_that_cannot_be_compared():
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int32())), ("t", pa.int64())])
    with pytest.raises(QueryError, match="'m' is map.*leave it out with select"):
        require_comparable(schema, ["t", "m"])
    with pytest.raises(QueryError, match="needs a result column"):
        require_comparable(schema, [])
