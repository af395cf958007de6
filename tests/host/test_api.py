"""``eddyline.join`` from Python."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import eddyline
from eddyline.io.source import Heartbeat
from eddyline.session import READ_ROWS

R = pa.table({"x": [1, 2, 3], "y": ["a", "b", "c"]})
S = pa.table({"a": [3, 2, 9]})
EXPECTED = [{"x": 2, "y": "b", "a": 2}, {"x": 3, "y": "c", "a": 3}]


def rows_of(reader: pa.RecordBatchReader) -> list[dict]:
    return reader.read_all().to_pylist()


SOURCES = {
    "table": lambda: R,
    "batch reader": lambda: pa.RecordBatchReader.from_batches(R.schema, R.to_batches()),
    "pandas": lambda: pd.DataFrame(R.to_pydict()),
    "polars": lambda: pl.DataFrame(R.to_pydict()),
    "duckdb": lambda: duckdb.sql("SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'c')) t(x, y)"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_anything_with_an_arrow_stream_is_a_side(kind):
    joined = eddyline.join(SOURCES[kind](), S, on="r.x = s.a")
    assert sorted(rows_of(joined), key=lambda row: row["x"]) == EXPECTED


def test_it_is_lazy():
    """Results come before the input ends, and input is read only as far as needed."""
    read = []

    def batches():
        for i in range(100):
            read.append(i)
            yield pa.record_batch({"x": [i]})

    endless = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    reader = eddyline.join(endless, pa.table({"a": list(range(100))}), on="r.x = s.a")
    assert reader.schema.names == ["x", "a"]
    assert not read
    assert reader.read_next_batch().to_pylist() == [{"x": 0, "a": 0}]
    assert len(read) < 5


@pytest.mark.parametrize("time", [None, "t"])
def test_the_size_of_batches_does_not_matter(time):
    """One batch that is read in pieces, and many that are not as long as one another's."""
    rows = 2 * READ_ROWS + 1000
    numbers = np.arange(rows)
    r = pa.table({"k": numbers * 7919 % 65537, "t": numbers, "n": numbers}).combine_chunks()
    s = pa.table({"k": numbers * 104729 % 65537, "t": numbers + 5, "m": numbers})
    asked = {"on": "r.k = s.k", "window": eddyline.rows(3000), "time": time, "order": "inner"}
    sizes = (READ_ROWS - 1, 999)
    pieces = [
        pa.Table.from_batches(one.to_batches(max_chunksize=size))
        for one, size in zip((r, s), sizes, strict=True)
    ]
    whole = eddyline.join(r, s, **asked).read_all()
    assert whole.num_rows > 1000
    assert whole.equals(eddyline.join(*pieces, **asked).read_all())


def test_wide_columns_are_picked_row_by_row():
    """A window has more text than one Arrow array can hold, and a result has little of it."""
    rows, wide, many = 4096, 2048, 300
    offsets = np.arange(rows + 1, dtype=np.int32) * wide
    text = pa.StringArray.from_buffers(
        rows, pa.py_buffer(offsets), pa.py_buffer(b"a" * (rows * wide))
    )
    assert rows * wide * many > 2**31
    numbers = np.arange(rows * many).reshape(many, rows)
    r = pa.Table.from_batches([pa.record_batch({"x": some, "text": text}) for some in numbers])
    found = eddyline.join(r, pa.table({"a": [1200000, 5]}), "r.x = s.a", window="unbounded")
    got = found.read_all()
    assert sorted(got["x"].to_pylist()) == [5, 1200000]
    assert set(got["text"].to_pylist()) == {"a" * wide}


def test_batches_with_dictionaries_of_their_own():
    """Together they have more values than an index of 8 bits can tell apart."""

    def batch(number: int) -> pa.RecordBatch:
        values = pa.array([f"v{number}_{i}" for i in range(100)])
        indices = pa.array(np.arange(100, dtype=np.int8))
        return pa.record_batch({"d": pa.DictionaryArray.from_arrays(indices, values)})

    r = pa.Table.from_batches([batch(0), batch(1)])
    assert rows_of(eddyline.join(r, pa.table({"a": ["v1_7"]}), "r.d = s.a")) == [
        {"d": "v1_7", "a": "v1_7"}
    ]


def test_a_side_of_which_no_column_is_needed():
    r, s = pa.table({"ts": [1, 0] * 70}), pa.table({"ts": [1]})
    asked = {"select": "s.ts", "time": "ts", "lateness": 1, "window": eddyline.rows(1000)}
    assert eddyline.join(r, s, "TRUE", **asked).read_all().num_rows == 140


@pytest.mark.parametrize("star", ["r.* EXCLUDE (x)", "* EXCLUDE (x)", "r.* AS foo"])
def test_a_star_is_all_columns_as_they_are(star):
    with pytest.raises(eddyline.QueryError, match="a star stands for all columns"):
        eddyline.join(R, S, "r.x = s.a", select=star)


def test_names_may_be_quoted_and_written_in_any_case():
    """A time column, too; names that differ only in case are two columns to Arrow."""
    r = pa.table({"Ts": [1, 2], "a b": [1, 2], "v": [7, 8]})
    s = pa.table({"ts": [1, 2], "K": [2, 1], "V": [5, 6]})
    joined = eddyline.join(r, s, on='r.`a b` = s."k"', time="TS", window="time:9")
    assert joined.schema.names == ["Ts", "a b", "v", "ts", "K", "V"]
    assert sorted(map(tuple, (row.values() for row in rows_of(joined)))) == [
        (1, 1, 7, 2, 1, 6),
        (2, 2, 8, 1, 2, 5),
    ]


@pytest.mark.parametrize("five", ["INTERVAL '-5' SECOND", "INTERVAL (-5) SECOND"])
def test_intervals_may_be_negative(five):
    at = [datetime.datetime(2026, 1, 1, 0, 0, second) for second in (0, 5)]
    r, s = pa.table({"t": [at[1]]}), pa.table({"u": [at[0]]})
    assert eddyline.join(r, s, f"r.t = s.u - {five}").read_all().num_rows == 1


def test_literals_of_dates_and_times():
    r = pa.table(
        {"d": pa.array([19724], pa.date32()), "t": pa.array([5_500_000], pa.timestamp("us"))}
    )
    s = pa.table({"a": [1]})
    for on in ("r.d = DATE '2024-01-02 10:00:00'", "r.t = TIMESTAMP '1970-01-01 00:00:05,5'"):
        assert eddyline.join(r, s, on).read_all().num_rows == 1, on


def test_a_list_is_several_physical_streams():
    parts = [pa.table({"ts": [1, 3], "x": [1, 3]}), pa.table({"ts": [2, 4], "x": [2, 4]})]
    s = pa.table({"ts": [3], "x": [0]})
    joined = eddyline.join(
        parts, s, on="TRUE", time="ts", window=eddyline.time(1), order="inner", select="r.x"
    )
    assert rows_of(joined) == [{"x": 2}, {"x": 3}, {"x": 4}]


def test_a_pair_of_windows_and_timestamps_of_different_units():
    at = datetime.datetime(2026, 1, 1)
    second = datetime.timedelta(seconds=1)
    r = pa.table({"t": pa.array([at, at + 5 * second], pa.timestamp("s")), "x": [1, 2]})
    s = pa.table({"when": pa.array([at + 2 * second, at + 9 * second], pa.timestamp("ms"))})
    joined = eddyline.join(
        r, s, on="TRUE", time=("t", "when"), order="inner", select='x, s."when", result_time',
        window=(eddyline.time("2s"), eddyline.time(datetime.timedelta(seconds=3))),
    )  # fmt: skip
    assert rows_of(joined) == [
        {"x": 1, "when": at + 2 * second, "result_time": at + 2 * second},
        {"x": 2, "when": at + 2 * second, "result_time": at + 5 * second},
    ]


def test_dates_as_time():
    days = pa.array([datetime.date(2026, 1, day) for day in (1, 2, 3)])
    r = s = pa.table({"day": days})
    joined = eddyline.join(
        r, s, on="r.day <> s.day", time="day", window="time:1d", select="result_time"
    ).read_all()
    assert joined.schema.types == [pa.date32()]
    assert joined.num_rows == 4


def test_late_rows_are_handed_over():
    late = []
    r = pa.table({"ts": [10, 1, 9], "x": [1, 2, 3]})
    s = pa.table({"ts": [10], "x": [0]})
    joined = eddyline.join(
        r, s, on="TRUE", time="ts", lateness=2, window=eddyline.unbounded(), select="r.x",
        on_late=lambda side, batch: late.append((side, batch.to_pylist())),
    )  # fmt: skip
    assert rows_of(joined) == [{"x": 3}, {"x": 1}]
    assert late == [("r", [{"ts": 1, "x": 2}])]


def test_errors_in_the_data_are_raised_while_reading():
    r = pa.table({"ts": [2, 1]})
    reader = eddyline.join(r, r, on="TRUE", time="ts")
    with pytest.raises(eddyline.DataError, match="r, row 1, column 'ts': time 1 runs backwards"):
        reader.read_all()


def test_a_failing_source_keeps_its_own_error():
    def batches():
        yield pa.record_batch({"x": [1]})
        raise RuntimeError("the cable was pulled")

    source = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    reader = eddyline.join(source, S, on="r.x = s.a")
    with pytest.raises(Exception, match="the cable was pulled"):
        reader.read_all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"on": "r.q = s.a"}, eddyline.QueryError, "no column 'r.q'"),
        ({"on": "TRUE", "window": 5}, eddyline.QueryError, "5 is not a window"),
        ({"on": "TRUE", "window": (eddyline.rows(1),)}, eddyline.QueryError, "nor a pair"),
        ({"on": "TRUE", "batch": 0}, eddyline.QueryError, "a batch of 0 rows"),
        ({"on": "TRUE", "device": "abacus"}, eddyline.DeviceError, "no device called 'abacus'"),
        ({"on": "TRUE", "time": ("x",)}, eddyline.QueryError, "neither a column nor a pair"),
        ({"on": "(" * 3000 + "TRUE" + ")" * 3000}, eddyline.QueryError, "nested too deeply"),
        ({"on": "TRUE", "order": "inner:99999999999"}, eddyline.QueryError, "is not an order"),
        ({"on": "TRUE", "device": "cpu?threads=²"}, eddyline.DeviceError, "is not a number"),
        ({"on": "TRUE", "lateness": 3.5}, eddyline.QueryError, "3.5 is not a duration"),
    ],
)
def test_wrong_queries_are_refused_at_once(arguments, error, message):
    with pytest.raises(error, match=message):
        eddyline.join(R, S, **arguments)


def test_a_side_that_is_no_stream():
    with pytest.raises(TypeError, match="r is a dict, which offers no Arrow stream"):
        eddyline.join({"x": [1]}, S, on="TRUE")


def test_a_stream_with_a_column_twice():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(eddyline.QueryError, match="two columns called 'x'"):
        eddyline.join(twice, S, on="TRUE")


def test_columns_that_are_only_carried_may_have_any_type():
    r = pa.table({"x": [1], "tags": [["a", "b"]], "nested": [{"k": 1}]})
    joined = eddyline.join(r, pa.table({"a": [1]}), on="r.x = s.a")
    assert rows_of(joined) == [{"x": 1, "tags": ["a", "b"], "nested": {"k": 1}, "a": 1}]
    with pytest.raises(eddyline.QueryError, match="column r.tags is list<.*cannot be joined on"):
        eddyline.join(r, S, on="r.tags = s.a")


def test_both_sides_from_one_duckdb_connection():
    r, s = duckdb.sql("SELECT 1.5 AS x"), duckdb.sql("SELECT 1.5 AS a")
    assert eddyline.join(r, s, on="r.x = s.a").read_all().num_rows == 1


def test_polars_columns_that_are_only_carried():
    frame = pl.DataFrame(
        {
            "x": [1],
            "many": [["a", "b"]],
            "kind": pl.Series(["k"], dtype=pl.Categorical),
            "n": [{"s": "t"}],
        }
    )
    joined = rows_of(eddyline.join(frame, pa.table({"a": [1]}), on="r.x = s.a"))
    assert joined == [{"x": 1, "many": ["a", "b"], "kind": "k", "n": {"s": "t"}, "a": 1}]


def test_a_type_that_cannot_be_carried_is_refused_unless_it_is_left_out():
    odd = pa.RunEndEncodedArray.from_arrays([1], [5])
    r = pa.table({"x": [1], "odd": odd})
    with pytest.raises(eddyline.QueryError, match="r.odd is .*cannot be carried into the result"):
        eddyline.join(r, S, on="TRUE")
    assert rows_of(eddyline.join(r, pa.table({"a": [1]}), on="r.x = s.a", select="x")) == [{"x": 1}]


def test_streams_of_a_side_may_differ_in_nullability_and_column_order():
    fields = [pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64())]
    one = pa.table([[1], [2]], schema=pa.schema(fields))
    other = pa.table({"y": [5, 6], "x": pa.array([None, 1])})
    joined = eddyline.join([one, other], pa.table({"a": [1, 1, 1]}), on="r.x = s.a", select="r.*")
    assert sorted(set(map(str, rows_of(joined)))) == ["{'x': 1, 'y': 2}", "{'x': 1, 'y': 6}"]


def test_a_null_where_none_was_promised_is_an_error():
    lying = pa.table(
        [pa.array([1, None])], schema=pa.schema([pa.field("x", pa.int64(), nullable=False)])
    )
    with pytest.raises(eddyline.DataError, match="r.x is declared to have no NULLs and has one"):
        eddyline.join(lying, S, on="r.x = s.a").read_all()


def test_wide_rows_come_in_small_batches():
    r = pa.table({"x": [1], "text": ["w" * 2**20]})
    s = pa.table({"a": [1] * 200})
    sizes = [batch.nbytes for batch in eddyline.join(r, s, on="r.x = s.a")]
    assert sum(sizes) > 200 * 2**20
    assert max(sizes) < 100 * 2**20


def test_a_batch_that_arrow_cannot_build_is_built_in_halves(monkeypatch):
    from eddyline.session import Session

    whole = Session._one_batch

    def limited(self, pairs):
        if len(pairs[0]) > 3:
            raise pa.ArrowInvalid("offset overflow")
        return whole(self, pairs)

    monkeypatch.setattr(Session, "_one_batch", limited)
    table = pa.table({"x": range(50)})
    joined = eddyline.join(table, table, on="r.x = s.x", order="inner").read_all()
    assert joined["r_x"].to_pylist() == list(range(50))


class Silent:
    """A live stream that has no rows for a while and says so."""

    schema = pa.schema({"ts": pa.timestamp("s"), "a": pa.int64()})

    def __iter__(self):
        yield Heartbeat(5)
        yield pa.record_batch({"ts": pa.array([8], pa.timestamp("s")), "a": [1]})
        raise AssertionError("nobody needs to read on for the first results")

    def place(self, row):
        return f"sensor, row {row}"

    def progress(self):
        return None


def test_a_heartbeat_lets_an_idle_stream_be_passed():
    times = pa.array([1000, 4999, 5000, 9000], pa.timestamp("ms"))
    r = pa.table({"ts": times, "x": [1, 2, 3, 4]})
    busy = pa.table({"ts": pa.array([1, 5, 9], pa.timestamp("s")), "a": [10, 50, 90]})
    joined = eddyline.join(
        r, [Silent(), busy], on="TRUE", time="ts", window="unbounded", select="r.x, s.a"
    )
    first = joined.read_next_batch().to_pylist()
    # The time of 5 s is not below the heartbeat of 5 s: that row waits.
    assert sorted(map(tuple, (row.values() for row in first))) == [(1, 10), (2, 10)]
