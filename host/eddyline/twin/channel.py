"""Channels between processes: sockets that keep packets whole and in order.

A packet is a header of four numbers and raw array data; nothing is pickled. One packet carries one
block, so a copy into the kernel and one out of it are small beside the join of that block, and in
exchange a process that ends is noticed at once by its neighbours.
"""

import socket
import struct
from collections import deque
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from eddyline.twin.protocol import Item, Kind, Message

__all__ = ["LARGEST", "Channel", "Code", "Gone", "Packet", "decode"]

HEADER = struct.Struct("<4q")
# A packet must fit a socket's send buffer, 208 KiB unless an administrator changed it.
LARGEST = 128 << 10
# Unsent packets after which a sender should wait; more than there can be acknowledgements.
MANY = 16


class Code(IntEnum):
    """What a packet is. The first four are messages between cores."""

    TUPLE = 1
    ACK = 2
    DRAIN = 3
    STAR = 4
    CONFIGURE = 5
    READY = 6
    STEP = 7
    DONE = 8
    BUBBLE = 9
    PAIRS = 10
    FAILED = 11


class Packet(NamedTuple):
    """``a``, ``b`` and ``c`` mean something for each code; ``data`` is valid until the next one."""

    code: Code
    a: int
    b: int
    c: int
    data: memoryview


class Gone(Exception):
    """The process at the other end has closed the channel."""


class Channel:
    """One end of a channel that never blocks."""

    def __init__(self, link: socket.socket):
        link.setblocking(False)
        self.link = link
        self.unsent: deque[tuple[bytes, bytes | memoryview]] = deque()
        self._buffer = memoryview(bytearray(HEADER.size + LARGEST))

    def fileno(self) -> int:
        return self.link.fileno()

    def send(
        self, code: Code, a: int = 0, b: int = 0, c: int = 0, data: bytes | memoryview = b""
    ) -> None:
        """Send a packet, or keep it until :meth:`pump` can."""
        self.unsent.append((HEADER.pack(code, a, b, c), data))
        self.pump()

    def pump(self) -> bool:
        """Send what can be sent; say whether something is left."""
        while self.unsent:
            try:
                self.link.sendmsg(self.unsent[0])
            except BlockingIOError:
                return True
            except OSError as error:
                raise Gone from error
            self.unsent.popleft()
        return False

    def receive(self) -> Packet | None:
        """Return the next packet, or None if there is none yet."""
        try:
            size = self.link.recv_into(self._buffer)
        except BlockingIOError:
            return None
        except OSError as error:
            raise Gone from error
        if not size:
            raise Gone
        code, a, b, c = HEADER.unpack_from(self._buffer)
        return Packet(Code(code), a, b, c, self._buffer[HEADER.size : size])

    def append(self, message: Message) -> None:
        """Send a message of the protocol."""
        item = message.item
        if item is not None:
            self.send(Code.TUPLE, item.number, item.weight, data=item.content.view(np.uint8).data)
        elif message.kind is Kind.DRAIN:
            self.send(Code.DRAIN, message.until, -1 if message.share is None else message.share)
        else:
            self.send(Code[message.kind.name])

    def room(self) -> bool:
        return len(self.unsent) < MANY

    def close(self) -> None:
        self.link.close()


def decode(packet: Packet, side: int, dtype: np.dtype) -> Message:
    """Return the message in a packet; ``side`` and ``dtype`` are those of tuples on this port."""
    match packet.code:
        case Code.TUPLE:
            block = np.frombuffer(packet.data, dtype).copy()
            return Message(Kind.TUPLE, Item(side, packet.a, block, packet.b))
        case Code.DRAIN:
            share = None if packet.b < 0 else packet.b
            return Message(Kind.DRAIN, until=packet.a, share=share)
        case code:
            return Message(Kind[code.name])
