"""Rows whose times run backwards: same pairs, same late rows, and nobody waits for them."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline
from eddyline import reference
from eddyline.device.cpu import CpuDevice
from eddyline.plan import Order, Window
from eddyline.reference import STAR

MATCHES = {
    "r.x = s.x": lambda r, s: r["x"] == s["x"],
    "abs(r.x - s.x) <= 1": lambda r, s: abs(r["x"] - s["x"]) <= 1,
    "r.x <= s.x AND r.k = s.k": lambda r, s: r["x"] <= s["x"] and r["k"] == s["k"],
    "r.name = s.name": lambda r, s: r["name"] == s["name"],
    "abs(r.x - s.x) <= 1 AND abs(r.k - s.k) <= 1": lambda r, s: (
        abs(r["x"] - s["x"]) <= 1 and abs(r["k"] - s["k"]) <= 1
    ),
}
HUGE = 2**70


def stream(rng: np.random.Generator, first: int, count: int, jitter: int) -> list[dict]:
    """Draw rows whose times rise and fall."""
    times = np.cumsum(rng.integers(0, 3, count)) + rng.integers(-jitter, jitter + 1, count)
    return [
        {"ts": int(ts), "id": first + i, "x": int(x), "k": int(k), "name": f"n{x % 3}-{ts // 40}"}
        for i, (ts, x, k) in enumerate(
            zip(times, rng.integers(0, 9, count), rng.integers(0, 3, count), strict=True)
        )
    ]


def source(rows: list[dict], size: int) -> pa.Table:
    schema = pa.schema(
        {"ts": pa.int64(), "id": pa.int32(), "x": pa.int32(), "k": pa.int32(), "name": pa.string()}
    )
    return pa.Table.from_batches(
        [pa.RecordBatch.from_pylist(rows[i : i + size], schema) for i in range(0, len(rows), size)],
        schema,
    )


@pytest.mark.parametrize("on", MATCHES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_pairs_and_late_rows_are_those_of_the_definition(on, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 16)))
    jitter = data.draw(st.sampled_from([0, 2, 15, 100]))
    streams = {
        side: [
            stream(rng, 1000 * number, data.draw(st.integers(0, 150)), jitter)
            for number in range(data.draw(st.integers(1, 2)))
        ]
        for side in "rs"
    }
    lateness = data.draw(st.sampled_from([0, 1, 10, 30, 1000, HUGE]))
    windows = [
        data.draw(st.sampled_from([Window("time", size) for size in (0, 1, 7, 60, 2**40)]))
        if data.draw(st.booleans())
        else Window("unbounded")
        for _ in "rs"
    ]
    arrivals, late = reference.arrival_order(
        streams["r"], streams["s"], time=lambda _, row: row["ts"], lateness=lateness
    )
    ids = {(one.side, one.id): one.row["id"] for one in arrivals}
    expected = Counter(
        (ids["r", pair[0]], ids["s", pair[1]])
        for pair in reference.join(arrivals, MATCHES[on], *windows, Order("none"))
        if pair != STAR
    )
    too_late: list[tuple[str, int]] = []
    sizes = [data.draw(st.sampled_from([1, 7, 64, 1000])) for _ in "rs"]
    joined = eddyline.join(
        *(
            [source(rows, size) for rows in streams[side]]
            for side, size in zip("rs", sizes, strict=True)
        ),
        on=on,
        time="ts",
        lateness=lateness,
        window=tuple(
            eddyline.time(one.size) if one.kind == "time" else eddyline.unbounded()
            for one in windows
        ),
        select="r.id AS i, s.id AS j",
        device=CpuDevice(threads=1, subwindows=data.draw(st.sampled_from([None, 1 << 12]))),
        batch=data.draw(st.sampled_from([1, 5, 1 << 16])),
        on_late=lambda side, batch: too_late.extend((side, i) for i in batch["id"].to_pylist()),
    ).read_all()
    pairs = zip(joined["i"].to_pylist(), joined["j"].to_pylist(), strict=True)
    assert Counter(pairs) == expected
    assert Counter(too_late) == Counter(
        (one.side, streams[one.side][one.stream][one.position]["id"]) for one in late
    )


def live(times: list[list[int]], read: list[int]) -> pa.RecordBatchReader:
    """Return a stream that notes what has been read of it."""
    schema = pa.schema({"ts": pa.int64()})

    def batches():
        for some in times:
            read.extend(some)
            yield pa.record_batch({"ts": some}, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


@pytest.mark.parametrize(
    ("order", "window", "waits"),
    [("none", "time:5", False), ("outer", "time:5", True), ("none", "rows:5", True)],
)
def test_rows_on_time_do_not_wait_for_late_ones(order, window, waits):
    """Where neither an order is asked for nor rows are counted."""
    read: list[int] = []
    times = [[10 * i] for i in range(50)]
    results = eddyline.join(
        live(times, read), live(times, read), on="r.ts = s.ts", time="ts", lateness=300,
        window=window, order=order, device="cpu",
    )  # fmt: skip
    next(results)
    assert (max(read) >= 300) == waits


def test_memory_follows_the_window_not_the_stream(monkeypatch):
    """Rows and strings that none can meet any more are let go, though rows come in any order."""
    sizes = []
    device = CpuDevice(threads=1)
    rng = np.random.default_rng(3)
    count, size = 40_000, 500
    times = np.arange(count) + rng.integers(-50, 50, count)
    names = pa.array([f"{one}" for one in times // 10])

    def batches():
        for start in range(0, count, size):
            part = slice(start, start + size)
            yield pa.record_batch({"ts": pa.array(times[part]), "name": names[part]})

    schema = pa.schema({"ts": pa.int64(), "name": pa.string()})
    sources = [pa.RecordBatchReader.from_batches(schema, batches()) for _ in "rs"]
    query = eddyline.api.make_query(
        schema, schema, "r.name = s.name", window=eddyline.time(100), time="ts", lateness=100
    )
    session = eddyline.session.Session(
        query, *([eddyline.io.source.ArrowSource(one, name="test")] for one in sources), device
    )
    pairs = 0
    for batch in session:
        pairs += batch.num_rows
        sizes.append(sum(map(len, session._stores.values())) + len(session._dictionary))
    assert pairs > count
    assert max(sizes) < 8000
    assert device.counters()["bytes"] < 4 << 20
