"""When a side of a stream pauses: idle cycles of a producer, backpressure of a consumer."""

from itertools import cycle, repeat

__all__ = ["IDLE", "STALL", "pauses"]

IDLE = ("never", "every other", "random", "bursts")
STALL = (*IDLE, "on demand")  # the last one raises ready only after it has seen valid


def pauses(pattern, random):
    """Return an endless iterator that says for each cycle whether to pause.

    Parameters
    ----------
    pattern : str
        One of :data:`IDLE`.
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
            return _bursts(random)
    raise ValueError(f"no pattern called {pattern!r} (known: {', '.join(STALL)})")


def _bursts(random):
    while True:
        yield from repeat(False, random.randint(1, 12))
        yield from repeat(True, random.randint(1, 24))
