"""Where stars stand among results that are in the order of arrival."""

import numpy as np

from eddyline.plan import Order

__all__ = ["left_open", "star_positions"]


def star_positions(
    order: Order,
    first: int,
    starts: np.ndarray,
    stops: np.ndarray,
    at: np.ndarray,
    ends: np.ndarray,
) -> np.ndarray:
    """Return the stars that close some consecutive arrivals.

    Parameters
    ----------
    order : Order
        What the plan asks for. ``none`` has a star per arrival here, like the strict forms.
    first : int
        Number of the first of these arrivals since the windows were empty.
    starts, stops : array
        Partners of each arrival, as a range of the other side's sequence numbers.
    at : array
        Sequence number of the earlier tuple of each result, sorted within an arrival.
    ends : array
        Results up to the end of each arrival.
    """
    if not order.every or order.kind == "none":
        return ends
    if order.kind == "outer":
        number = first + np.arange(len(ends)) + 1
        return ends[number % order.every == 0]
    return _inner_stars(starts, stops, at, ends, order.every)


def left_open(order: Order, arrivals: int) -> bool:
    """Say whether a last star is due after so many arrivals."""
    return order.kind == "outer" and arrivals % max(order.every, 1) > 0


def _inner_stars(
    starts: np.ndarray, stops: np.ndarray, at: np.ndarray, ends: np.ndarray, every: int
) -> np.ndarray:
    """Put a star after every so many comparisons of an arrival, and after its last one."""
    pieces = np.maximum(-(-(stops - starts) // every), 1)
    arrival = np.repeat(np.arange(len(starts)), pieces)
    piece = np.arange(len(arrival)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + 1
    closes_before = np.minimum(starts[arrival] + piece * every, stops[arrival])
    # Results are sorted by (arrival, sequence number); make that one sortable number.
    span = int(max(stops.max(initial=0), 1)) + 1
    owner = np.repeat(np.arange(len(starts)), np.diff(ends, prepend=0))
    return np.searchsorted(owner * span + at, arrival * span + closes_before, "left")
