"""Words keep the order of what they stand for."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.query.types import column_type, raw_array
from eddyline.words import float_words, value_words, words_to_floats


@pytest.mark.parametrize("kind", ["float32", "float64"])
@given(data=st.data())
def test_floats_keep_their_order(kind, data):
    floats = st.floats(width=int(kind[5:]))
    values = np.array(data.draw(st.lists(floats, min_size=2)), kind)
    words = float_words(values)
    key = [(math.isnan(v), 0 if math.isnan(v) else v) for v in values.tolist()]
    for i in range(len(values) - 1):
        assert (words[i] < words[i + 1]) == (key[i] < key[i + 1])
        assert (words[i] == words[i + 1]) == (key[i] == key[i + 1])
    back = words_to_floats(words, kind)
    assert np.array_equal(back, values, equal_nan=True)


def test_the_ends_of_the_float_line_are_neighbours():
    line = np.array([-np.inf, np.finfo("f4").min, -1e-45, -0.0, 0.0, 1e-45, np.inf, np.nan], "f4")
    words = float_words(line).astype(np.int64)
    assert words[3] == words[4]
    assert words[7] == words[6] + 1
    assert words[1] == words[0] + 1


@pytest.mark.parametrize(
    "type_",
    [pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.date32(), pa.timestamp("ns"), pa.bool_()],
)
def test_integers_start_at_zero_and_fill_their_word(type_):
    line = column_type(type_, "x")
    raw = pa.array([line.low, line.high], pa.uint64() if line.low == 0 else pa.int64())
    if pa.types.is_temporal(type_):
        raw = raw.cast(pa.int32()) if type_.bit_width == 32 else raw
    words, valid = value_words(line, *raw_array(raw.cast(type_)))
    assert words.tolist() == [0, 2**line.width - 1]
    assert valid.all()


def test_decimals_are_read_exactly_with_offsets_and_nulls():
    column = pa.array(["9.9", None, "-999999999999.999999", "0.000001"]).cast(pa.decimal128(18, 6))
    raw, valid = raw_array(column.slice(1))
    assert raw.tolist() == [0, -(10**18) + 1, 1]
    assert valid.tolist() == [False, True, True]
