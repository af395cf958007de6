"""Arithmetic on timestamps, which are 64-bit integers and may be any of them."""

import numpy as np

__all__ = ["EARLIEST", "LATEST", "earlier", "later"]

EARLIEST, LATEST = -(2**63), 2**63 - 1


def earlier(times: np.ndarray, amount: int) -> np.ndarray:
    """Subtract a duration of any length, stopping at the earliest time there is."""
    amount = min(amount, 2**64)  # longer than from one end of time to the other
    while amount:
        step = min(amount, LATEST)
        times = np.maximum(times, EARLIEST + step) - step
        amount -= step
    return times


def later(times: np.ndarray, amount: int) -> np.ndarray:
    """Add a duration of any length, stopping at the latest time there is."""
    # Complementing reverses the line of 64-bit integers.
    return ~earlier(~times, amount)
