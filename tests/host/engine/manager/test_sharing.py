"""Who stores which tuple, batch after batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.engine.manager import SubwindowSharing, TupleSharing
from eddyline.plan import Window
from tests.host.twin.joins import BAND, parts, plan, tuples

WHOLE = tuples(BAND, "rrs" * 40, 1)
CUTS = st.lists(st.integers(1, 120), max_size=8)


def owners(sharing, cuts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the owners of all tuples of R and S, asked for in pieces."""
    found = ([], [])
    first = (0, 0)
    for piece in parts(WHOLE, cuts):
        for side, some in enumerate(sharing.owners(piece, first)):
            found[side].extend(some.tolist())
        first = (first[0] + len(piece.r), first[1] + len(piece.s))
    return np.array(found[0]), np.array(found[1])


@given(cuts=CUTS)
def test_tuples_go_round(cuts):
    r, s = owners(TupleSharing(3), cuts)
    assert r.tolist() == [i % 3 for i in range(80)]
    assert s.tolist() == [i % 3 for i in range(40)]


@given(cuts=CUTS)
def test_subwindows_of_rows_go_round(cuts):
    """Windows of 30 and 9 over 3 workers with 2 subwindows each: subwindows of 5 and 2."""
    one = plan(BAND, Window("rows", 30), Window("rows", 9))
    r, s = owners(SubwindowSharing(one, 3, 2), cuts)
    assert r.tolist() == [i // 5 % 3 for i in range(80)]
    assert s.tolist() == [(1 + i // 2) % 3 for i in range(40)]  # half a round later


@given(cuts=CUTS)
def test_subwindows_of_time_end_with_a_span(cuts):
    """Spans of 5 ticks; the next worker takes the next one that has tuples."""
    one = plan(BAND, Window("time", 30), Window("unbounded"))
    r, s = owners(SubwindowSharing(one, 3, 2), cuts)
    spans = WHOLE.r["time"] // 5
    assert r.tolist() == [np.unique(spans).tolist().index(span) % 3 for span in spans]
    assert set(s.tolist()) == {1}  # within the first subwindow of a window without end


@pytest.mark.parametrize("size", [0, 2**63, 2**70])
def test_a_window_of_time_may_be_of_any_length(size):
    one = plan(BAND, Window("time", size), Window("time", size))
    r, _ = owners(SubwindowSharing(one, 2), [])
    assert set(r.tolist()) == ({0, 1} if size == 0 else {0})


def test_windows_start_again_with_the_first_worker():
    one = plan(BAND, Window("time", 6), Window("time", 6))
    sharing = SubwindowSharing(one, 3, 2)
    before = owners(sharing, [])
    sharing.reset()
    for old, new in zip(before, owners(sharing, [50]), strict=True):
        assert old.tolist() == new.tolist()
