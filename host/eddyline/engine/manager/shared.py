"""Memory that processes share.

It has no name, only descriptors: nothing is left behind when the last process that has one ends,
however it ends.
"""

import mmap
import os
import tempfile
from collections.abc import Sequence

import numpy as np

__all__ = ["SharedArray", "SharedView", "received", "sent"]

LEAST = 1 << 20  # bytes of the smallest segment, and of the room that is left in a new one


class SharedArray:
    """An array that grows at its end and is forgotten at its beginning, by sequence number.

    Other processes read it through a :class:`SharedView` of ``fd``. When there is no room for more,
    what is kept moves: to a new segment, or to the beginning of the same one, which costs a tenth
    because the machine has no new memory to give. ``base`` then changes, and ``moves`` counts it;
    ``segment`` and ``fd`` change with the segment. A reader may go on with an old segment, and with
    an old base as long as what it reads is kept and nothing is appended after the next.
    """

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype
        self.moves = self.segment = 0
        self.fd = -1
        self.clear()

    def close(self) -> None:
        """Let the memory go; doing so again is harmless."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self._values = np.empty(0, self.dtype)

    def __del__(self) -> None:
        self.close()

    def clear(self) -> None:
        """Start again at 0, in another segment."""
        self.base = self.count = self.kept = 0
        self.moves += 1
        self._open(LEAST // self.dtype.itemsize + 1)

    def append(self, values: np.ndarray, *, settled: bool = False) -> None:
        """Write at the end. ``settled`` if all readers know where to read what is kept."""
        end = self.count + len(values)
        if end - self.base > len(self._values):
            self._move(end - self.kept, settled=settled)
        # numpy copies records one by one, and bytes all at once.
        new = np.ascontiguousarray(values, self.dtype).view(np.uint8)
        self._values[self.count - self.base : end - self.base].view(np.uint8)[:] = new
        self.count = end

    def forget(self, below: int) -> None:
        """Say that nobody will ask for what is below a sequence number."""
        self.kept = max(self.kept, min(below, self.count))

    def view(self, start: int, stop: int) -> np.ndarray:
        return self._values[start - self.base : stop - self.base]

    def _move(self, needed: int, *, settled: bool) -> None:
        live = self.view(self.kept, self.count)
        room = self.kept - self.base
        self.base = self.kept
        self.moves += 1
        # What comes now must not be written over what somebody is reading.
        if not settled or needed > room:
            self._open(3 * needed + LEAST // self.dtype.itemsize)  # so that moves are rare
        self._values[: len(live)].view(np.uint8)[:] = live.view(np.uint8)

    def _open(self, capacity: int) -> None:
        old, self.fd = self.fd, _segment(capacity * self.dtype.itemsize)
        if old >= 0:
            os.close(old)
        self._values = np.frombuffer(mmap.mmap(self.fd, 0), self.dtype)
        self.segment += 1


class SharedView:
    """What another process has in a :class:`SharedArray`."""

    def __init__(self, fd: int, base: int, dtype: np.dtype):
        self.base = base
        self._values = received(fd, dtype)

    def view(self, start: int, stop: int) -> np.ndarray:
        return self._values[start - self.base : stop - self.base]


def sent(arrays: Sequence[np.ndarray]) -> int:
    """Return a descriptor of new memory that holds arrays, one behind the other."""
    fd = _segment(0)
    for array in arrays:
        left = np.ascontiguousarray(array).view(np.uint8)
        while len(left):
            left = left[os.write(fd, left.data) :]
    return fd


def received(fd: int, dtype: np.dtype) -> np.ndarray:
    """Return what is in the memory behind a descriptor, to be read only, and close that."""
    try:
        memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
    return np.frombuffer(memory, dtype, len(memory) // dtype.itemsize)


def _segment(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("eddyline")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd
