"""The order of a batch: by time, R before S."""

import numpy as np

__all__ = ["merged", "sorted_places"]


def sorted_places(times: np.ndarray) -> np.ndarray | None:
    """Return the places of rows in order of time, or None if they are in order."""
    if (times[1:] >= times[:-1]).all():
        return None
    return np.argsort(times, kind="stable")


def merged(r: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return the side of each arrival of two sides whose times never fall, R first among equals."""
    sides = np.zeros(len(r) + len(s), np.uint8)
    sides[np.searchsorted(r, s, "right") + np.arange(len(s))] = 1
    return sides
