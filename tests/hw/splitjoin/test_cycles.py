"""The operator takes the cycles that we promise."""

from functools import partial

import pytest

from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.splitjoin.precision import Precision
from tests.hw.bench import record
from tests.hw.handshake.joins import band_plan, message
from tests.hw.splitjoin.play import STAR, play

CYCLES = 160  # scans of so many cycles are more than fit into all queues on the way
PATTERNS = {"alternating": "rs", "bursty": "rrrrrrrssss", "one-sided": "r"}


def without_pairs(sides):
    """Return messages of these sides that match nothing."""
    words = {"r": {"x": 0}, "s": {"lo": 1, "hi": 1}}
    return [message(side, number, words[side]) for number, side in enumerate(sides)]


def fill(window_r, window_s):
    return without_pairs("r" * window_r + "s" * window_s)


@pytest.mark.parametrize(
    ("cores", "window_r", "window_s", "lanes", "memory", "mode", "every", "pattern"),
    [
        (1, 4, 4, 4, "bram", Precision.NONE, 1, "alternating"),
        (3, 6, 6, 2, "lutram", Precision.NONE, 1, "bursty"),
        (2, 16, 16, 4, "lutram", Precision.NONE, 1, "alternating"),
        (2, 24, 16, 4, "bram", Precision.OUTER, 1, "bursty"),
        (3, 12, 24, 1, "lutram", Precision.OUTER, 1, "one-sided"),
        (2, 24, 16, 4, "lutram", Precision.INNER, 64, "alternating"),
        # A star in every cycle: from tuples of one row, and from every row.
        (1, 2, 2, 2, "lutram", Precision.OUTER, 1, "one-sided"),
        (5, 5, 10, 2, "lutram", Precision.OUTER, 1, "bursty"),
        (5, 5, 5, 1, "bram", Precision.OUTER, 1, "one-sided"),
        (3, 9, 12, 1, "lutram", Precision.INNER, 1, "bursty"),
        (5, 5, 5, 1, "lutram", Precision.INNER, 1, "one-sided"),
    ],
)
def test_tuples_follow_each_other_without_a_gap(
    cores, window_r, window_s, lanes, memory, mode, every, pattern
):
    """Comparators are busy in every cycle while there is something to do."""
    plan = band_plan()
    dut = SplitJoin(
        plan, cores=cores, window_r=window_r, window_s=window_s, lanes=lanes, memory=memory,
        fan_in=2,
    )  # fmt: skip
    windows, inner = {"r": window_s, "s": window_r}, mode is Precision.INNER
    scans = {s: dut.rows("sr"[s == "s"], windows[s], inner=inner) for s in "rs"}
    count = CYCLES // min(scans.values())
    sides = (PATTERNS[pattern] * count)[:count]
    messages = [*fill(window_r, window_s), *without_pairs(sides), STAR]
    taken = [[] for _ in dut.core]
    play(
        dut,
        dut.settings(window_r, window_s, order_mode=mode, every=every),
        messages,
        watch=[
            partial(record, port=core.sequencer.i, into=into)
            for core, into in zip(dut.core, taken, strict=True)
        ],
    )
    for into in taken:
        cycles = [cycle for cycle, packet in into if packet.tuple or packet.sync][-count - 1 :]
        gaps = [later - earlier for earlier, later in zip(cycles, cycles[1:], strict=False)]
        # A packet is taken with its last row; the star at the end is one cycle behind.
        assert gaps == [*(scans[side] for side in sides[1:]), 1]


@pytest.mark.parametrize(
    ("cores", "fan_out", "fan_in", "lanes", "stages", "separate", "mode", "every"),
    [
        (1, 2, 2, 1, 0, False, Precision.OUTER, 1),
        (2, 2, 2, 2, 1, True, Precision.OUTER, 1),
        (5, 2, 3, 1, 2, False, Precision.INNER, 64),
        (8, 4, 4, 3, 3, False, Precision.OUTER, 1),
        (9, 8, 8, 2, 2, True, Precision.INNER, 64),
        (3, 2, 2, 1, 2, False, Precision.INNER, 1),
        (5, 2, 3, 4, 2, False, Precision.INNER, 1),
        (9, 8, 8, 2, 1, True, Precision.INNER, 1),
        (2, 2, 2, 8, 0, False, Precision.INNER, 1),
    ],
)
def test_latency_is_as_documented(cores, fan_out, fan_in, lanes, stages, separate, mode, every):
    dut = SplitJoin(
        band_plan(),
        cores=cores,
        window_r=50,
        window_s=44,
        lanes=lanes,
        fan_out=fan_out,
        fan_in=fan_in,
        stages=stages,
        separate=separate,
    )
    values = dut.settings(50, 44, order_mode=mode, every=every)
    _, entered, outputs = play(dut, values, [*without_pairs("r"), STAR], idle=[0, 120])
    out = next(cycle for cycle, item in outputs["left"] if item.star and item.final)
    inner = mode is Precision.INNER
    assert out - entered[0] == dut.latency("s", 44, inner=inner, strict=inner and every == 1)
