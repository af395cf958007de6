"""What Spark's Java says, without what it says at every start and of every query."""

import contextlib
import os
import re
import threading
from collections.abc import Iterator

__all__ = ["hushed"]

# Python workers of transformWithState report what they do to stdout, with a blank line behind each
# report, and Java passes it on whatever its log level; the rest is told before the level is set.
CHATTER = re.compile(
    rb"Starting Streaming TransformWithState|Streaming TransformWithState\w* Python worker "
    rb"|WARNING: Using incubator modules|Using Spark's default log4j profile"
    rb"|Setting (default|Spark) log level|To adjust logging level"
    rb"|\S+ \S+ WARN NativeCodeLoader"
)


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Let processes that start within write to stderr as before, but for Spark's chatter."""
    source, sink = os.pipe()
    stderr = os.dup(2)
    threading.Thread(target=_pass_on, args=(source, stderr), daemon=True, name="hushed").start()
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(sink)


def _pass_on(source: int, stderr: int) -> None:
    """Copy lines until nobody can write any more."""
    with open(source, "rb") as lines, open(stderr, "wb", buffering=0) as out:
        reported = False
        for line in lines:
            blank = reported and not line.strip()
            reported = bool(CHATTER.match(line))
            if not (reported or blank):
                with contextlib.suppress(OSError):  # who listened has gone; Spark must not wait
                    out.write(line)
