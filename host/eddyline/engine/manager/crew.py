"""The worker processes: start them, listen to them, notice when one has ended, replace it."""

import itertools
import logging
import select
import socket
import weakref

from eddyline.engine.manager.link import Link, Message
from eddyline.processes import Process, ended, started

__all__ = ["Crew"]

logger = logging.getLogger(__name__)


class Crew:
    """Processes that wait for orders, each at the end of a link.

    They end with this process, however it ends: their links close. A crew can serve one join after
    the other.

    Parameters
    ----------
    count : int
        How many there are, at places from 0 on.

    Members
    -------
    numbers : iterator of int
        Numbers for batches: no two are the same, so an answer to an earlier join is known as such.
    """

    def __init__(self, count: int):
        if count < 1:
            raise ValueError(f"a crew needs at least 1 worker, not {count}")
        self._processes: list[Process] = []
        self._links: list[Link] = []
        self.numbers = itertools.count()
        self._end = weakref.finalize(self, ended, self._processes, self._links)
        for _ in range(count):
            process, link = _start()
            self._processes.append(process)
            self._links.append(link)
        logger.info("started %d workers: %s", count, self.pids)

    def __len__(self) -> int:
        return len(self._links)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def close(self) -> None:
        """End the workers; doing so again is harmless."""
        self._end()

    def send(self, place: int, message: Message, fd: int | None = None) -> None:
        """Send a message to a worker.

        Raises
        ------
        Gone
            If it has ended.
        """
        self._links[place].send(message, fd)

    def listen(self, patience: float | None = 0) -> list[int]:
        """Wait for messages, so many seconds or for ever; return the places that have some.

        A worker that has ended has one, too: receiving it raises ``Gone``.
        """
        poll = select.poll()
        places = {}
        for place, link in enumerate(self._links):
            poll.register(link, select.POLLIN)
            places[link.fileno()] = place
        ready = poll.poll(None if patience is None else 1000 * patience)
        return [places[fd] for fd, _ in ready]

    def links(self) -> list[int]:
        """Return the descriptors of all links, by place; none if the workers have been ended."""
        return [link.fileno() for link in self._links] if self._end.alive else []

    def ended(self) -> list[int]:
        """Return the places of workers that have ended. What they said can still be received."""
        poll = select.poll()
        places = {fd: place for place, fd in enumerate(self.links())}
        for fd in places:
            poll.register(fd, 0)  # hanging up is always reported
        return [places[fd] for fd, _ in poll.poll(0)]

    def receive(self, place: int) -> tuple[Message, int | None]:
        """Return the next message of a worker, and the descriptor that came with it.

        Raises
        ------
        Gone
            If it has ended, and all of its messages have been received.
        """
        return self._links[place].receive()

    def replace(self, place: int) -> None:
        """Start another worker where one has ended."""
        self._links[place].close()
        old = self._processes[place]
        old.kill()
        status = old.wait()
        logger.warning("worker %d (process %d) has ended: status %d", place, old.pid, status)
        self._processes[place], self._links[place] = _start()


def _start() -> tuple[Process, Link]:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        process = started("eddyline.engine.manager.worker", [number], [number])
    return process, Link(mine)
