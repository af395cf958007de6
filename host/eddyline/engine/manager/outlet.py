"""Results straight from the workers to another process, past the manager."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from eddyline.engine.manager.link import Gone, Link, Message
from eddyline.engine.manager.output import Piece, part_of
from eddyline.engine.part import Part
from eddyline.errors import DeviceError

__all__ = ["Consumer", "Outlet", "Spout"]


class Outlet:
    """Where the workers of a join put their results, and a consumer takes them.

    Its descriptor is for the consumer: give it to another process (``pass_fds`` of
    :class:`subprocess.Popen`), which opens a :class:`Consumer` there, and then ``hand_over``. A
    consumer that does not read makes the workers wait, so it must not be the thread that pushes.
    """

    def __init__(self) -> None:
        self._taking, self._giving = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._link = Link(self._giving)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close both ends here; copies in other processes stay open."""
        self._taking.close()
        self._giving.close()

    def hand_over(self) -> None:
        """Close the consumer's end here, so that it is noticed when the consumer ends."""
        self._taking.close()

    def fileno(self) -> int:
        return self._taking.fileno()

    @property
    def giving(self) -> int:
        """The descriptor that workers get a copy of."""
        return self._giving.fileno()

    def closed(self, batch: int, arrivals: int) -> None:
        """Say that all results of a batch are on their way, and of how many arrivals altogether."""
        _send(self._link, {"say": "closed", "batch": batch, "closed": arrivals})

    def end(self) -> None:
        """Say that nothing follows. A consumer that has ended need not know."""
        with suppress(DeviceError):
            _send(self._link, {"say": "end"})


class Spout:
    """A worker's end of an outlet.

    A worker says that a batch is done here before it says so to the manager. If it dies in between,
    its successor does the batch again, and the consumer leaves that out.
    """

    def __init__(self, fd: int, place: int):
        self._link = Link(socket.socket(fileno=fd))
        self._about = {"place": place, "who": os.getpid()}

    def close(self) -> None:
        self._link.close()

    def send(self, message: Message, fd: int | None = None) -> None:
        _send(self._link, self._about | message, fd)


class Consumer:
    """Take what workers have found: every pair once, whatever becomes of them. Iterate over it.

    Parts are those of a join without order; ``closed`` rises when all pairs of a batch have come.

    Parameters
    ----------
    fd : int
        The descriptor of an :class:`Outlet`, or a copy of it.

    Raises
    ------
    DeviceError
        While iterating, if the join has ended without having been closed.
    """

    def __init__(self, fd: int):
        self._link = Link(socket.socket(fileno=os.dup(fd)))

    def close(self) -> None:
        self._link.close()

    def __iter__(self) -> Iterator[Part]:
        arrivals, next_batch = 0, 0
        done: set[tuple[int, int]] = set()
        # By batch, place and process: what a process has left that died over it is never taken.
        pieces: dict[tuple[int, int, int], list[Piece]] = {}
        while True:
            try:
                message, fd = self._link.receive()
            except Gone:
                raise DeviceError("the join has ended before all of its results came") from None
            match message["say"]:
                case "end":
                    return
                case "closed":
                    arrivals, next_batch = message["closed"], message["batch"] + 1
                    done = {one for one in done if one[0] >= next_batch}
                    pieces = {key: some for key, some in pieces.items() if key[0] >= next_batch}
                    yield part_of(None, arrivals)
                case say:
                    whose = message["batch"], message["place"]
                    key = (*whose, message["who"])
                    if say == "part":
                        assert fd is not None
                        piece = Piece.read(fd, message["pairs"], message["ends"])
                        pieces.setdefault(key, []).append(piece)
                        continue
                    some = pieces.pop(key, [])
                    if whose not in done and whose[0] >= next_batch:
                        done.add(whose)
                        yield from (part_of(one, arrivals) for one in some)


def _send(link: Link, message: Message, fd: int | None = None) -> None:
    try:
        link.send(message, fd)
    except Gone:
        raise DeviceError("the consumer of the results has ended") from None
