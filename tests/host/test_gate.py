"""The gate: one order, whatever the interleaving."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import DataError, OutOfOrder
from eddyline.gate import ENDED, Stream, TimeGate, TurnGate
from eddyline.reference import arrival_order

EXTREME = [-(2**63), -(2**63) + 1, 2**63 - 1]
TIMES = st.lists(st.integers(0, 6) | st.sampled_from(EXTREME), max_size=8)
STREAMS = st.lists(TIMES, min_size=1, max_size=3)


def streams_of(r, s):
    return {
        Stream(side, number): rows
        for side, streams in (("r", r), ("s", s))
        for number, rows in enumerate(streams)
    }


def named(chunks):
    """Return released rows as (side, stream, position)."""
    return [
        (chunk.streams[origin].side, chunk.streams[origin].number, row)
        for chunk in chunks
        for origin, row in zip(chunk.origins.tolist(), chunk.rows.tolist(), strict=True)
    ]


def expected(r, s, **options):
    tagged = [
        [
            [(side, number, position, ts) for position, ts in enumerate(rows)]
            for number, rows in enumerate(streams)
        ]
        for side, streams in (("r", r), ("s", s))
    ]
    arrivals, late = arrival_order(*tagged, **options)
    return [a.row[:3] for a in arrivals], {(x.side, x.stream, x.position) for x in late}


@given(r=STREAMS, s=STREAMS, data=st.data(), lateness=st.none() | st.integers(0, 3))
def test_every_interleaving_gives_the_one_order(r, s, data, lateness):
    if lateness is None:
        r, s = ([sorted(rows) for rows in side] for side in (r, s))
    streams = streams_of(r, s)
    gate = TimeGate(streams, lateness=lateness)
    left = {stream: list(rows) for stream, rows in streams.items()}
    taken = dict.fromkeys(streams, 0)
    chunks, late = [], set()
    while left:
        stream = data.draw(st.sampled_from(sorted(left, key=lambda one: one.rank)))
        count = data.draw(st.integers(0, 3))
        part, left[stream] = left[stream][:count], left[stream][count:]
        found = gate.add(stream, np.array(part, np.int64))
        late |= {(stream.side, stream.number, int(row)) for row in found}
        taken[stream] += len(part)
        if not left[stream]:
            gate.heartbeat(stream, ENDED)
            del left[stream]
        chunks.append(gate.take())
        assert gate.buffered + sum(map(len, chunks)) + len(late) == sum(taken.values())
    assert gate.lagging is None
    rows, expected_late = expected(r, s, time=lambda _, row: row[3], lateness=lateness)
    assert named(chunks) == rows
    assert late == expected_late


@given(r=STREAMS, s=STREAMS, data=st.data())
def test_turns_do_not_depend_on_how_rows_come_in(r, s, data):
    streams = streams_of(r, s)
    gate = TurnGate(streams)
    left = {stream: len(rows) for stream, rows in streams.items()}
    chunks = []
    while (stream := gate.lagging) is not None:
        # The one that is awaited must come; others may come early.
        others = [one for one in left if data.draw(st.booleans())]
        for one in {stream, *others} & set(left):
            count = min(left[one], data.draw(st.integers(1, 3)))
            gate.add(one, count)
            left[one] -= count
            if not left[one]:
                gate.end(one)
                del left[one]
        chunks.append(gate.take())
    rows, _ = expected(r, s)
    assert named(chunks) == rows
    assert not gate.buffered


def test_a_row_waits_until_every_stream_has_passed_its_time():
    r, s = Stream("r", 0), Stream("s", 0)
    gate = TimeGate([r, s])
    gate.add(r, np.array([1, 5]))
    assert len(gate.take()) == 0
    gate.add(s, np.array([5]))
    assert named([gate.take()]) == [("r", 0, 0)], "5 is not below 5: another 5 may still come"
    gate.heartbeat(r, 6)
    gate.heartbeat(s, 6)
    assert named([gate.take()]) == [("r", 0, 1), ("s", 0, 0)]


def test_a_heartbeat_lets_an_idle_stream_be_passed():
    r, idle = Stream("r", 0), Stream("s", 0)
    gate = TimeGate([r, idle])
    gate.add(r, np.arange(10))
    assert gate.lagging == idle
    gate.heartbeat(idle, 7)
    assert gate.take().times.tolist() == [0, 1, 2, 3, 4, 5, 6]
    with pytest.raises(OutOfOrder, match="time 6 runs backwards after 7"):
        gate.add(idle, np.array([6]))


def test_the_gate_refuses_to_grow_without_bound_but_takes_the_laggard():
    ahead, behind = Stream("r", 0), Stream("s", 0)
    gate = TimeGate([ahead, behind], capacity=10)
    gate.add(behind, np.array([0]))
    gate.add(ahead, np.arange(9))
    with pytest.raises(DataError, match="holds 10 rows and stream r0 runs ahead"):
        gate.add(ahead, np.array([9]))
    gate.add(behind, np.arange(1, 5))
    assert len(gate.take()) == 8


def test_times_that_run_backwards_name_the_row():
    gate = TimeGate([Stream("r", 0)])
    gate.add(Stream("r", 0), np.array([3, 4]))
    with pytest.raises(OutOfOrder) as caught:
        gate.add(Stream("r", 0), np.array([4, 9, 8]))
    assert (caught.value.row, caught.value.time, caught.value.after) == (4, 8, 9)


def test_rows_that_come_one_by_one_stay_cheap_to_hold():
    """Many small batches wait for a lateness; each release must not walk through all of them."""
    r = Stream("r", 0)
    gate = TimeGate([r], lateness=10**6)
    for i in range(4000):
        gate.add(r, np.array([i]))
    assert len(gate._pending[r].parts) < 16
    gate.heartbeat(r, ENDED)
    assert gate.take().rows.tolist() == list(range(4000))


def test_a_side_far_ahead_is_not_looked_at_whole():
    r, s = Stream("r", 0), Stream("s", 0)
    gate = TurnGate([r, s])
    gate.add(r, 5_000_000)
    gate.add(s, 2)
    assert len(gate._side_order("r")) == 3
    assert len(gate.take()) == 5


def test_lateness_may_be_longer_than_time_itself():
    r = Stream("r", 0)
    gate = TimeGate([r], lateness=2**70)
    late = gate.add(r, np.array([2**63 - 1, -(2**63), 5]))
    assert not len(late)
    gate.heartbeat(r, ENDED)
    assert gate.take().rows.tolist() == [1, 2, 0]
