"""Memory that is shared: what is read is what was written."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.engine.manager.shared import SharedArray, SharedView, received, sent

LONG = np.dtype(np.int64)


@given(steps=st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), max_size=12))
def test_an_array_grows_and_forgets(steps):
    """Everything that is kept is seen, also by those who opened it before it moved."""
    array = SharedArray(LONG)
    views = []
    for more, fewer in steps:
        array.append(np.arange(array.count, array.count + more))
        array.forget(array.kept + fewer)
        assert array.kept <= array.count
        views.append((SharedView(os.dup(array.fd), array.base, LONG), array.kept, array.count))
    for view, start, stop in views:
        assert np.array_equal(view.view(start, stop), np.arange(start, stop))
    assert np.array_equal(array.view(array.kept, array.count), np.arange(array.kept, array.count))
    array.close()
    array.close()


@pytest.mark.parametrize("settled", [False, True])
def test_an_array_that_forgets_does_not_grow(settled, monkeypatch):
    monkeypatch.setattr("eddyline.engine.manager.shared.LEAST", 1 << 14)
    array = SharedArray(LONG)
    for _ in range(1000):
        array.append(np.arange(1000), settled=settled)
        array.forget(array.count - 500)
    assert os.fstat(array.fd).st_size < 100_000
    assert (array.segment < 5) == settled
    assert array.moves > 50
    array.close()


@given(
    steps=st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), max_size=30),
    least=st.sampled_from([64, 1 << 16]),
)
def test_what_is_kept_stays_readable_until_the_append_after_the_next(steps, least):
    """Whoever reads the last two appends finds them where they were, though the array moves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eddyline.engine.manager.shared.LEAST", least)
        array = SharedArray(LONG)
    reading: list[tuple[SharedView, int, int]] = []
    for more, fewer in steps:
        start = array.count
        array.append(np.arange(start, start + more), settled=True)
        for view, first, last in reading[-1:]:
            assert np.array_equal(view.view(first, last), np.arange(first, last))
        reading.append((SharedView(os.dup(array.fd), array.base, LONG), start, array.count))
        # What the last append wrote is still being read.
        array.forget(min(array.kept + fewer, start))
        kept = array.view(array.kept, array.count)
        assert np.array_equal(kept, np.arange(array.kept, array.count))
    array.close()


def test_arrays_are_sent_one_behind_the_other():
    fd = sent([np.arange(3), np.empty(0, LONG), np.arange(5)[::2]])
    found = received(fd, LONG)
    assert found.tolist() == [0, 1, 2, 0, 2, 4]
    assert not found.flags.writeable
