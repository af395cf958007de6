"""Timers of a unit's state: one, for the first thing that waits for the watermark."""

from collections.abc import Iterable
from typing import Any

__all__ = ["come_back"]

FOREVER = 2**62  # milliseconds


def come_back(handle: Any, due: Iterable[int | None], tick: int) -> None:
    """Set the timer of the key at hand to when the watermark is past the first of some times.

    Times are in ticks of ``tick`` nanoseconds; None is never.
    """
    known = [when for when in due if when is not None]
    # The first millisecond that is later, as timers and watermarks count in those.
    wanted = {min(min(known) * tick // 10**6 + 1, FOREVER)} if known else set()
    there = set(handle.listTimers())
    for old in there - wanted:
        handle.deleteTimer(old)
    for new in wanted - there:
        handle.registerTimer(new)
