"""The definition, checked by hand where the papers leave room for doubt."""

import pytest

from eddyline.errors import DataError
from eddyline.plan import Order, Window
from eddyline.reference import STAR, Arrival, arrival_order, join

ANY = lambda r, s: True  # noqa: E731
UNBOUNDED = Window("unbounded")


def arrivals(text: str) -> list[Arrival]:
    """Read ``r1 s1 r5``: side and time."""
    counts = {"r": 0, "s": 0}
    found = []
    for word in text.split():
        found.append(Arrival(word[0], counts[word[0]], None, int(word[1:])))
        counts[word[0]] += 1
    return found


def run(text: str, window_r=UNBOUNDED, window_s=UNBOUNDED, order="none", every=0):
    return list(join(arrivals(text), ANY, window_r, window_s, Order(order, every)))


def pairs(found):
    return [item for item in found if item != STAR]


def test_a_tuple_meets_only_what_came_before():
    assert pairs(run("r0 s0 s0 r0")) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert pairs(run("r0 r0")) == []


def test_rows_windows_count_their_own_side():
    assert pairs(run("r0 r0 r0 s0", window_r=Window("rows", 2))) == [(1, 0), (2, 0)]
    assert pairs(run("r0 s0 s0 s0 s0", window_r=Window("rows", 1))) == [(0, i) for i in range(4)]


def test_ages_of_zero_and_of_the_whole_window_are_inside():
    window = Window("time", 3)
    assert pairs(run("r0 s3", window_r=window)) == [(0, 0)]
    assert pairs(run("r0 s4", window_r=window)) == []
    assert pairs(run("r0 s0", window_r=Window("time", 0))) == [(0, 0)]


def test_the_opposite_window_expires_before_the_comparison():
    """ScaleJoin expires a tuple's own window afterwards and would compare 0 with 5 here."""
    window = Window("time", 4)
    assert pairs(run("r0 s5 r6 s10", window, window)) == [(1, 0), (1, 1)]


def test_each_side_has_its_own_kind_of_window():
    found = pairs(run("r0 s0 r9 s9 r9", Window("rows", 1), Window("time", 5)))
    assert found == [(0, 0), (1, 1), (2, 1)]


def test_stars_close_arrivals():
    assert run("r0 s0 s0", order="outer") == [STAR, (0, 0), STAR, (0, 1), STAR]
    assert run("r0 s0 s0", order="outer", every=2) == [(0, 0), STAR, (0, 1), STAR]
    assert run("r0 s0 s0 r0", order="outer", every=2)[-1] == STAR
    assert run("", order="outer") == []


def test_inner_stars_come_every_so_many_comparisons_and_at_the_end():
    found = run("s0 s0 s0 r0", order="inner", every=2)
    assert found == [STAR, STAR, STAR, (0, 0), (0, 1), STAR, (0, 2), STAR]
    found = run("s0 s0 r0", order="inner", every=2)
    assert found == [STAR, STAR, (0, 0), (0, 1), STAR], "no empty interval at the end"
    assert run("s0 s0 r0", order="inner", every=1)[2:] == [(0, 0), STAR, (0, 1), STAR]


def test_ties_are_decided_by_side_stream_and_position():
    rows = [[("r", 0, 0), ("r", 0, 1)], [("r", 1, 0)]], [[("s", 0, 0)], [("s", 1, 0)]]
    found, _ = arrival_order(*rows, time=lambda side, row: 7)
    assert [one.row for one in found] == [
        ("r", 0, 0), ("r", 0, 1), ("r", 1, 0), ("s", 0, 0), ("s", 1, 0),
    ]  # fmt: skip


def test_without_time_sides_alternate_and_streams_take_turns():
    found, _ = arrival_order([["a", "b", "c"], ["A"]], [["x"]])
    assert [one.row for one in found] == ["a", "x", "A", "b", "c"]


def test_late_is_judged_within_one_stream():
    found, late = arrival_order([[10, 7, 8, 5]], [[1]], time=lambda side, row: row, lateness=2)
    assert [one.row for one in found] == [1, 8, 10]
    assert [(one.side, one.position) for one in late] == [("r", 1), ("r", 3)]


def test_backwards_or_missing_times_are_errors():
    with pytest.raises(DataError, match="row 1: time runs backwards"):
        arrival_order([[2, 1]], [[]], time=lambda side, row: row)
    with pytest.raises(DataError, match="row 0: the time is NULL"):
        arrival_order([[None]], [[]], time=lambda side, row: row)
