"""When a side of a stream pauses: idle cycles of a producer, backpressure of a consumer."""

from itertools import cycle, repeat

__all__ = ["IDLE", "STALL", "pauses"]

IDLE = ("never", "every other", "random", "bursts")
# Besides, "droughts" last long enough to fill every queue.
STALL = (*IDLE, "on demand")  # the last one raises ready only after it has seen valid


def pauses(pattern, random):
    """Return an endless iterator that says for each cycle whether to pause.

    Parameters
    ----------
    pattern : str
        One of :data:`IDLE`, or ``droughts``.
    random : random.Random
        Where the random patterns take their numbers from.
    """
    match pattern:
        case "never":
            return repeat(False)
        case "every other":
            return cycle([True, False])
        case "random":
            return iter(lambda: random.random() < 0.5, None)
        case "bursts":
            return _bursts(random, 12, 24)
        case "droughts":
            return _bursts(random, 20, 400)
    raise ValueError(f"no pattern called {pattern!r} (known: {', '.join(STALL)})")


def _bursts(random, moving, pausing):
    while True:
        yield from repeat(False, random.randint(1, moving))
        yield from repeat(True, random.randint(1, pausing))
