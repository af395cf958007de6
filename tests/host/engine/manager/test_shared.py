"""Memory that is shared: what is read is what was written."""

import os

import numpy as np
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


def test_an_array_that_forgets_does_not_grow():
    array = SharedArray(LONG)
    for _ in range(1000):
        array.append(np.arange(1000))
        array.forget(array.count - 500)
    assert os.fstat(array.fd).st_size < 100_000
    array.close()


def test_arrays_are_sent_one_behind_the_other():
    fd = sent([np.arange(3), np.empty(0, LONG), np.arange(5)[::2]])
    found = received(fd, LONG)
    assert found.tolist() == [0, 1, 2, 0, 2, 4]
    assert not found.flags.writeable
