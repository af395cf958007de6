"""Rows are found by their ids, however they came and whatever has been let go of."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eddyline.rowstore import RowStore

STEPS = st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 12000)), min_size=1, max_size=8)


@given(steps=STEPS, text=st.booleans())
def test_rows_are_found_by_their_ids(steps, text):
    """Each step brings rows, and lets go of all but some of the last."""
    type_ = pa.string() if text else pa.int64()
    store = RowStore(pa.schema([("x", type_)]), id_bits=31)
    for new, kept in steps:
        numbers = np.arange(store.count, store.count + new)
        column = pa.array(numbers, pa.int64()).cast(type_)
        store.append(pa.record_batch([column], ["x"]), numbers * 10)
        store.drop_below(store.count - kept)
        assert len(store) == store.count - store.first <= kept
        ids = np.arange(store.first, store.count)[::-3].astype(np.uint32)
        assert store.take(ids, ["x"])["x"].to_pylist() == pa.array(ids).cast(type_).to_pylist()
        assert store.times(ids).tolist() == (ids.astype(int) * 10).tolist()
        if len(store):
            assert store.first_at(int(store.first) * 10 + 1) in (store.first + 1, store.count)


def test_what_is_let_go_of_is_not_kept_in_memory():
    store = RowStore(pa.schema([("x", pa.int64())]), id_bits=31)
    for number in range(50):
        numbers = np.arange(1000) + number * 1000
        store.append(pa.record_batch([pa.array(numbers)], ["x"]), numbers)
        store.drop_below(store.count - 1000)
    assert sum(len(part.times) for part in store._parts) <= 2000
