"""Codes of strings live as long as a window may hold them."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.dictionary import Dictionary
from eddyline.errors import DataError

NO_TIME = np.zeros(10_000, np.int64)


def codes(dictionary, side, values, first=0):
    found, valid = dictionary.encode(side, pa.array(values), first, NO_TIME[: len(values)])
    return [int(code) if ok else None for code, ok in zip(found, valid, strict=True)]


def test_equal_strings_have_equal_codes_on_both_sides():
    dictionary = Dictionary()
    r = codes(dictionary, "r", ["a", "b", None, "a"])
    s = codes(dictionary, "s", ["b", "c", "a"])
    assert r[0] == r[3] == s[2]
    assert r[1] == s[0]
    assert r[2] is None
    assert len({*r, *s} - {None}) == 3


def test_codes_are_given_again_once_no_window_holds_the_string():
    dictionary = Dictionary()
    codes(dictionary, "r", [f"old{i}" for i in range(2000)])
    kept = codes(dictionary, "s", ["old7"])
    first_time = dict.fromkeys("rs", np.iinfo(np.int64).min)
    dictionary.evict({"r": 1990, "s": 0}, first_time)
    assert len(dictionary) == 11, "ten in R's window, one in S's"
    new = codes(dictionary, "r", [f"new{i}" for i in range(1500)], first=2000)
    assert max(new) < 2000, "old codes are used up before new ones"
    assert kept[0] not in new
    assert codes(dictionary, "r", ["old7"], first=3500) == kept


def test_too_many_strings_at_once_is_an_error():
    with pytest.raises(DataError, match="more than 2 different strings are in the windows"):
        codes(Dictionary(most=2), "r", ["a", "b", "c"])


@pytest.mark.parametrize("window", ["rows:50", "time:100"])
def test_a_long_stream_of_new_strings_needs_no_more_codes_than_its_windows(window):
    count = 20_000
    table = pa.table({"ts": range(count), "name": [f"n{i // 2}" for i in range(count)]})
    joined = eddyline.join(
        table, table, on="r.name = s.name", window=window, time="ts", batch=100
    ).read_all()
    # Each string stands twice on each side, and all four are in the windows together.
    assert joined.num_rows == 2 * count
    dictionary_encoded = table.set_column(1, "name", table["name"].dictionary_encode())
    again = eddyline.join(
        dictionary_encoded, table, on="r.name = s.name", window=window, time="ts"
    ).read_all()
    assert again.num_rows == 2 * count


@pytest.mark.parametrize("batch", [10, 3000])
def test_two_columns_of_one_side_share_the_codes(batch):
    """The second column must not make a string look older than the first one left it."""
    count = 3000
    columns = {name: [f"{name}{i}" for i in range(count)] for name in "abc"}
    columns["a"][1490] = columns["b"][5] = columns["c"][1500] = "hot"
    r, s = pa.table({name: columns[name] for name in "ab"}), pa.table({"c": columns["c"]})
    joined = eddyline.join(
        r, s, on="r.a = s.c OR r.b = s.c", window=eddyline.rows(20), batch=batch
    ).read_all()
    assert joined.to_pylist() == [{"a": "hot", "b": "b1490", "c": "hot"}]
