# amaranth: UnusedElaboratable=no
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline_hw.stream.broadcast import BroadcastTree, Fork
from tests.hw.bench import collect, feed, record, simulate

GAPS = st.lists(st.integers(0, 4), max_size=10)


def run(dut, count, idle=(), stalls=()):
    """Broadcast ``count`` numbers; return the transfers at each output."""
    left = [[] for _ in dut.o]
    simulate(
        dut,
        partial(feed, port=dut.i, payloads=range(count), idle=idle),
        *(
            partial(
                collect, port=port, count=count, into=[], stall=stalls[n] if n < len(stalls) else ()
            )
            for n, port in enumerate(dut.o)
        ),
        watch=[
            partial(record, port=port, into=into) for port, into in zip(dut.o, left, strict=True)
        ],
    )
    return left


@settings(max_examples=25, deadline=None)
@given(
    outputs=st.integers(1, 7),
    fan_out=st.integers(2, 4),
    count=st.integers(0, 10),
    idle=GAPS,
    stalls=st.lists(GAPS, max_size=7),
)
def test_every_output_gets_everything_once_however_it_stalls(outputs, fan_out, count, idle, stalls):
    left = run(BroadcastTree(8, outputs=outputs, fan_out=fan_out), count, idle, stalls)
    for transfers in left:
        assert [payload for _, payload in transfers] == list(range(count))


@settings(max_examples=15, deadline=None)
@given(ways=st.integers(1, 4), count=st.integers(0, 8), idle=GAPS, stalls=st.lists(GAPS))
def test_a_fork_serves_each_output_once_however_it_stalls(ways, count, idle, stalls):
    for transfers in run(Fork(8, ways=ways), count, idle, stalls):
        assert [payload for _, payload in transfers] == list(range(count))


@pytest.mark.parametrize(
    ("outputs", "fan_out", "latency"),
    [(1, 4, 1), (2, 2, 1), (3, 2, 2), (4, 4, 1), (5, 4, 2), (16, 4, 2), (17, 4, 3), (9, 3, 2)],
)
def test_all_outputs_see_a_payload_every_cycle_at_the_same_depth(outputs, fan_out, latency):
    dut = BroadcastTree(8, outputs=outputs, fan_out=fan_out)
    assert dut.latency == latency
    assert run(dut, 12) == [[(latency + n, n) for n in range(12)]] * outputs


def test_a_stalled_output_holds_the_others_up_only_once_its_buffers_are_full():
    left = run(BroadcastTree(8, outputs=4, fan_out=2), 10, stalls=[[30]])
    ahead = [sum(cycle < 30 for cycle, _ in transfers) for transfers in left]
    # Two payloads per buffer on the way, and the one the stalled output is still owed.
    assert ahead == [0, 2 + 1, 4 + 1, 4 + 1]


def test_impossible_trees_are_refused():
    with pytest.raises(ValueError, match=r"^a broadcast tree needs at least 1 output, not 0$"):
        BroadcastTree(8, outputs=0)
    with pytest.raises(ValueError, match=r"broadcast tree must be at least 2, not 1$"):
        BroadcastTree(8, outputs=4, fan_out=1)
    with pytest.raises(ValueError, match=r"^a fork needs at least 1 output, not 0$"):
        Fork(8, ways=0)
