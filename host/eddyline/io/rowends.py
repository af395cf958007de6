"""Where CSV rows end: a newline ends a row unless it stands between quotes.

A quote opens only at the start of a cell, as in RFC 4180 and in Arrow's parser; anywhere else it
is a letter like any other.
"""

import numpy as np
from numba import njit

__all__ = ["CELL", "QUOTED", "row_ends"]

CELL, PLAIN, QUOTED, CLOSED = range(4)
NEWLINE, QUOTE, COMMA = ord("\n"), ord('"'), ord(",")


def row_ends(block: bytes, state: int = CELL) -> tuple[np.ndarray, int]:
    """Return the places right after each row, and the state at the end of the block."""
    data = np.frombuffer(block, np.uint8)
    ends = np.empty(block.count(b"\n"), np.int64)
    count, state = _scan(data, state, ends)
    return ends[:count], state


@njit(cache=True, nogil=True)
def _scan(data, state, ends):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(len(data)):
        byte = data[i]
        if state == QUOTED:
            if byte == QUOTE:
                state = CLOSED
        elif byte == NEWLINE:
            ends[count] = i + 1
            count += 1
            state = CELL
        elif byte == COMMA:
            state = CELL
        elif byte == QUOTE and state in (CELL, CLOSED):
            state = QUOTED  # at the start of a cell, or the second of two in a quoted one
        else:
            state = PLAIN
    return count, state
