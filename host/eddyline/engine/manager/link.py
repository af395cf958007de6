"""Messages between the manager and a worker: a few numbers, and descriptors of shared memory."""

import json
import socket
from typing import Any

__all__ = ["Gone", "Link", "Message"]

Message = dict[str, Any]

# A plan may take some of it; other messages are far smaller. A packet must fit a socket's send
# buffer, 208 KiB unless an administrator changed it.
LARGEST = 128 << 10


class Gone(Exception):
    """The process at the other end has ended."""


class Link:
    """One end of a socket that keeps messages whole and in order."""

    def __init__(self, end: socket.socket):
        self._end = end

    def fileno(self) -> int:
        return self._end.fileno()

    def close(self) -> None:
        self._end.close()

    def send(self, message: Message, fd: int | None = None) -> None:
        """Send a message, and a descriptor that the other end gets a copy of.

        Raises
        ------
        Gone
            If the other end is closed.
        """
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > LARGEST:
            raise ValueError(f"a message of {len(data)} bytes is too long for a worker")
        try:
            if fd is None:
                self._end.send(data)
            else:
                socket.send_fds(self._end, [data], [fd])
        except (BrokenPipeError, ConnectionResetError):
            raise Gone from None

    def receive(self) -> tuple[Message, int | None]:
        """Wait for a message; the descriptor that may come with it belongs to the caller.

        Raises
        ------
        Gone
            If the other end is closed, and all of its messages have been received.
        """
        try:
            data, fds, _, _ = socket.recv_fds(self._end, LARGEST, 1)
        except ConnectionResetError:
            # It has not read all that it was sent. This is said once, before what it sent itself.
            data, fds, _, _ = socket.recv_fds(self._end, LARGEST, 1)
        if not data:
            raise Gone
        return json.loads(data), fds[0] if fds else None
