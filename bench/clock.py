"""Time measured on the processor, so that a busy machine does not count against anybody."""

import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object], *, repeat: int = 3) -> float:
    """Return the least processor time of several runs."""
    best = float("inf")
    for _ in range(repeat):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best
