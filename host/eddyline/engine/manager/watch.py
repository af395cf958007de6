"""Somebody who looks after the workers while nobody calls their manager."""

import select
import socket
import threading
import weakref
from contextlib import suppress
from typing import Protocol

__all__ = ["Watch", "Watched"]


class Watched(Protocol):
    """What is watched. Both methods are called by another thread."""

    def links(self) -> list[int]:
        """Return descriptors of links that hang up when a worker has ended."""

    def look(self) -> None:
        """Look at the workers: a link has hung up."""


class Watch:
    """A thread that sleeps until a worker has ended, and then has somebody look.

    It ends with what it watches, also when that is only forgotten.
    """

    def __init__(self, watched: Watched):
        self._bell, theirs = socket.socketpair()
        self._bell.setblocking(False)
        self._end = weakref.finalize(self, self._bell.close)
        self._thread = threading.Thread(
            target=_watch, args=(weakref.ref(watched), theirs), name="eddyline-watch", daemon=True
        )
        self._thread.start()

    def ring(self) -> None:
        """Say that there are other links to watch."""
        with suppress(BlockingIOError):  # it has been told often enough
            self._bell.send(b"!")

    def close(self) -> None:
        """End the thread; doing so again is harmless. Nobody may hold what it waits for."""
        self._end()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _watch(known: "weakref.ref[Watched]", bell: socket.socket) -> None:
    with bell:
        while (watched := known()) is not None:
            links = watched.links()
            del watched  # so that it can be forgotten
            poll = select.poll()
            poll.register(bell, select.POLLIN)
            for fd in links:
                poll.register(fd, 0)  # hanging up is always reported
            ready = {fd for fd, _ in poll.poll()}
            if bell.fileno() in ready and not bell.recv(4096):
                return
            if ready - {bell.fileno()} and (watched := known()) is not None:
                watched.look()
                del watched
