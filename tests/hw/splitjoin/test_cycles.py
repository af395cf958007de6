"""The operator takes the cycles that we promise."""

from functools import partial

import pytest

from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.splitjoin.precision import Precision
from tests.hw.bench import record
from tests.hw.handshake.joins import band_plan, message
from tests.hw.splitjoin.play import STAR, play

PATTERNS = {"alternating": "rs", "bursty": "rrrrrrrssss", "one-sided": "r"}


def without_pairs(sides):
    """Return messages of these sides that match nothing."""
    words = {"r": {"x": 0}, "s": {"lo": 1, "hi": 1}}
    return [message(side, number, words[side]) for number, side in enumerate(sides)]


def fill(window_r, window_s):
    return without_pairs("r" * window_r + "s" * window_s)


@pytest.mark.parametrize(
    ("cores", "window_r", "window_s", "lanes", "memory", "mode", "pattern"),
    [
        (1, 4, 4, 4, "bram", Precision.NONE, "alternating"),
        (3, 6, 6, 2, "lutram", Precision.NONE, "bursty"),
        (2, 16, 16, 4, "lutram", Precision.NONE, "alternating"),
        (2, 24, 16, 4, "bram", Precision.OUTER, "bursty"),
        (3, 12, 24, 1, "lutram", Precision.OUTER, "one-sided"),
        (2, 24, 16, 4, "lutram", Precision.INNER, "alternating"),
    ],
)
def test_tuples_follow_each_other_without_a_gap(
    cores, window_r, window_s, lanes, memory, mode, pattern
):
    """Comparators are busy in every cycle while there is something to do."""
    plan = band_plan()
    dut = SplitJoin(
        plan, cores=cores, window_r=window_r, window_s=window_s, lanes=lanes, memory=memory
    )
    sides = (PATTERNS[pattern] * 40)[:40]
    messages = [*fill(window_r, window_s), *without_pairs(sides), STAR]
    every = 64 if mode is Precision.INNER else 1
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
    windows = {"r": window_s, "s": window_r}
    inner = mode is Precision.INNER
    for into in taken:
        cycles = [cycle for cycle, packet in into if packet.tuple or packet.sync][-41:]
        gaps = [later - earlier for earlier, later in zip(cycles, cycles[1:], strict=False)]
        assert gaps == [dut.rows("sr"[s == "s"], windows[s], inner=inner) for s in sides]


@pytest.mark.parametrize(
    ("cores", "fan_out", "fan_in", "lanes", "stages", "separate", "mode"),
    [
        (1, 2, 2, 1, 0, False, Precision.OUTER),
        (2, 2, 2, 2, 1, True, Precision.OUTER),
        (5, 2, 3, 1, 2, False, Precision.INNER),
        (8, 4, 4, 3, 3, False, Precision.OUTER),
        (9, 8, 8, 2, 2, True, Precision.INNER),
    ],
)
def test_latency_is_as_documented(cores, fan_out, fan_in, lanes, stages, separate, mode):
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
    every = 64 if mode is Precision.INNER else 1
    values = dut.settings(50, 44, order_mode=mode, every=every)
    _, entered, outputs = play(dut, values, [*without_pairs("r"), STAR], idle=[0, 120])
    (out, star), *_ = outputs["left"]
    assert star.star
    assert star.final
    inner = mode is Precision.INNER
    assert out - entered[0] == dut.latency("s", 44, inner=inner)
