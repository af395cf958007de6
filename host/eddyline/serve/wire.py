"""Messages between a device's owner and who uses it.

A message is a length, a JSON object and, if it has arrays, a descriptor of memory that holds them.
The memory is sealed: whoever gets it can rely on its size and on its contents staying as they are.
Nothing is taken that is larger than a limit.
"""

import fcntl
import json
import mmap
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["MOST", "MOST_SHARED", "Channel", "WireError"]

MOST = 1 << 20  # bytes of a message
MOST_SHARED = 1 << 30  # bytes of arrays that come with one
LENGTH = struct.Struct("!I")
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class WireError(Exception):
    """The other process has sent something that is no message."""


class Channel:
    """One end of a connection. Takes turns: a request, then its answer."""

    def __init__(self, connection: socket.socket):
        self._socket = connection

    def close(self) -> None:
        self._socket.close()

    def send(self, message: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
        """Send a message with arrays.

        Raises
        ------
        WireError
            If it is too large to be taken.
        """
        raw = [np.ascontiguousarray(one).view(np.uint8).reshape(-1) for one in arrays]
        sizes = [len(one) for one in raw]
        text = json.dumps({**message, "sizes": sizes}).encode()
        _require("a message", len(text), MOST)
        _require("arrays", sum(sizes), MOST_SHARED)
        fds = [_sealed(raw)] if sum(sizes) else []
        data = LENGTH.pack(len(text)) + text
        try:
            begun = socket.send_fds(self._socket, [data], fds)
            if begun < len(data):
                self._socket.sendall(data[begun:])
        finally:
            for fd in fds:
                os.close(fd)

    def receive(self) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Wait for a message; return it, and the bytes of its arrays.

        Raises
        ------
        WireError
            If it is too large, or none.
        EOFError
            If the other process has ended, or has nothing more to say.
        """
        head, fds, _, _ = socket.recv_fds(self._socket, LENGTH.size, 1)
        try:
            if not head:
                raise EOFError
            (length,) = LENGTH.unpack(head + self._exactly(LENGTH.size - len(head)))
            _require("a message", length, MOST)
            try:
                message = json.loads(self._exactly(length))
                sizes = message["sizes"]
            except (ValueError, KeyError, TypeError) as error:
                raise WireError(f"that is no message: {error}") from None
            if not isinstance(sizes, list) or not all(type(n) is int and n >= 0 for n in sizes):
                raise WireError(f"sizes {sizes!r} are no numbers of bytes")
            _require("arrays", sum(sizes), MOST_SHARED)
            return message, _opened(fds, sizes)
        finally:
            for fd in fds:
                os.close(fd)

    def _exactly(self, length: int) -> bytes:
        parts = []
        while length:
            part = self._socket.recv(min(length, MOST))
            if not part:
                raise EOFError
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def _require(what: str, size: int, most: int) -> None:
    if size > most:
        raise WireError(f"{what} of {size} bytes: at most {most} are taken")


def _sealed(arrays: list[np.ndarray]) -> int:
    """Return memory that holds arrays, one behind the other, and that nobody can change."""
    fd = os.memfd_create("eddyline", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for one in arrays:
            left = one.data
            while left:
                left = left[os.write(fd, left) :]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _opened(fds: list[int], sizes: list[int]) -> list[np.ndarray]:
    total = sum(sizes)
    if not total:
        return [np.empty(0, np.uint8) for _ in sizes]
    if not fds:
        raise WireError(f"{total} bytes of arrays are announced, and no memory came with them")
    try:
        seals = fcntl.fcntl(fds[0], fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if seals & SEALS != SEALS:
        raise WireError("the memory of the arrays is not sealed: it could change while it is read")
    there = os.fstat(fds[0]).st_size
    if there != total:
        raise WireError(f"{total} bytes of arrays are announced, and the memory has {there}")
    # Older kernels refuse to share what is sealed against writing, even with those who only read.
    memory = mmap.mmap(fds[0], total, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    whole = np.frombuffer(memory, np.uint8)
    return np.split(whole, np.cumsum(sizes)[:-1])
