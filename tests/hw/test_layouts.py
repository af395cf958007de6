"""Layouts follow the plan bit for bit."""

from dataclasses import replace

import pyarrow as pa
import pytest
from amaranth.hdl import Shape

from eddyline.plan import Layout, Word, in_rows
from eddyline.query import Query
from eddyline.query.window import rows, time
from eddyline_hw.layouts import message_layout, result_layout, side_layout

R = pa.schema([pa.field("ts", pa.int64()), pa.field("x", pa.int16(), nullable=False)])
S = pa.schema([pa.field("ts", pa.int64()), pa.field("a", pa.int16())])


def plan(on, window=None):
    window = window or rows(8)
    return Query(R, S, on, window, window, time=("ts", "ts")).plan


@pytest.mark.parametrize("on", ["r.x = s.a", "abs(r.x - s.a) <= 3 AND s.a > 4", "TRUE"])
def test_a_side_has_the_bits_that_the_plan_counts(on):
    lowered = plan(on)
    for side in "rs":
        layout = lowered.layout(side)
        assert Shape.cast(side_layout(layout)).width == layout.device_bits


def test_words_may_be_invalid_only_where_the_plan_says_so():
    lowered = plan("r.x = s.a")
    assert list(dict(side_layout(lowered.r))) == ["w0"]
    assert list(dict(side_layout(lowered.s))) == ["w0", "w0_valid"]


def test_time_travels_only_where_a_window_needs_it():
    without, with_time = (in_rows(plan("r.x = s.a", window), 8) for window in (None, time(5)))
    assert Shape.cast(message_layout(without)).width == 3 + 32 + 17
    assert Shape.cast(message_layout(with_time)).width == 3 + 32 + 17 + 2 * 64


def test_the_result_of_the_paper_has_96_bits_beside_the_star():
    key = replace(plan("r.x = s.a"), r=Layout((Word("key", 32, False, "r.key"),), ()))
    assert Shape.cast(result_layout(key, ["key"])).width == 1 + 96
    assert Shape.cast(result_layout(key)).width == 1 + 64
