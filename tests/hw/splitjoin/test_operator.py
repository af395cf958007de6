"""The operator gives what the definition gives, in the order that was asked for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.splitjoin.precision import Precision
from tests.hw.handshake.joins import band_plan, message, random_arrivals
from tests.hw.splitjoin.model import check, expected_parts
from tests.hw.splitjoin.play import FLUSH, play

ORDERS = [
    (Precision.NONE, 1),
    (Precision.OUTER, 1),
    (Precision.OUTER, 3),
    (Precision.INNER, 1),
    (Precision.INNER, 2),
    (Precision.INNER, 64),
]


OTHERS = {
    "order": st.sampled_from(ORDERS),
    "seed": st.integers(0, 99),
    "r_share": st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    "memory": st.sampled_from(["lutram", "bram"]),
    "idle": st.lists(st.integers(0, 5), max_size=20),
    "stall": st.sampled_from([(), (2, 0), (0, 0, 7)]),
}


@settings(max_examples=10, deadline=None)
@given(
    cores=st.integers(1, 5),
    window_r=st.integers(1, 12),
    window_s=st.integers(1, 12),
    spare=st.integers(0, 6),
    lanes=st.integers(1, 4),
    fan_in=st.integers(2, 3),
    fan_out=st.integers(2, 3),
    count=st.integers(0, 25),
    **OTHERS,
)
def test_pairs_come_in_the_order_asked_for(**case):
    check_order(**case)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    cores=st.integers(1, 20),
    window_r=st.integers(1, 50),
    window_s=st.integers(1, 50),
    spare=st.integers(0, 6),
    lanes=st.integers(1, 8),
    fan_in=st.integers(2, 8),
    fan_out=st.integers(2, 8),
    count=st.integers(0, 60),
    **OTHERS,
)
def test_pairs_come_in_the_order_asked_for_whatever_the_trees(**case):
    check_order(**case)


def check_order(
    *, cores, window_r, window_s, spare, lanes, fan_in, fan_out, memory, order, count, seed,
    r_share, idle, stall,
):  # fmt: skip
    plan = band_plan()
    mode, every = order
    arrivals = random_arrivals(count, seed=seed, values=5, r_share=r_share)
    dut = SplitJoin(
        plan,
        cores=cores,
        window_r=window_r + spare,
        window_s=window_s,
        lanes=lanes,
        fan_in=fan_in,
        fan_out=fan_out,
        memory=memory,
    )
    messages = [*(message(*one) for one in arrivals), FLUSH]
    values = dut.settings(window_r, window_s, order_mode=mode, every=every)
    epochs, _, outputs = play(dut, values, messages * 2, idle=idle, stall=stall)
    parts, rest = expected_parts(
        plan,
        arrivals,
        {"r": window_r, "s": window_s},
        cores=cores,
        mode=mode,
        every=every,
    )
    assert len(epochs) == 2
    for results in epochs:
        check(results, parts, rest, exact=order == (Precision.INNER, 1))
    assert not outputs["overflow"]
