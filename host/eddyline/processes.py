"""Processes that work for this one, and end with it."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Protocol

__all__ = ["Process", "ended", "started"]

Process = subprocess.Popen[bytes]


class Closable(Protocol):
    """Something by which a process is reached; when it closes, the process ends by itself."""

    def close(self) -> None: ...


def started(module: str, arguments: Iterable[object], links: Sequence[int]) -> Process:
    """Start a module of this package, with descriptors that it inherits under their numbers."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        pass_fds=links,
        process_group=0,  # an interrupt is for this process, which then ends them
    )


def ended(processes: Iterable[Process], links: Iterable[Closable]) -> None:
    """End processes and wait until they are gone."""
    for link in links:
        link.close()
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
