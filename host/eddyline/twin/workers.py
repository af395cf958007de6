"""The processes of a chain: start them, talk to them, notice when one has ended."""

import logging
import select
import socket
import time
import weakref
from contextlib import suppress
from typing import NoReturn

import numpy as np

from eddyline.errors import DeviceError
from eddyline.processes import Process, ended, started
from eddyline.twin.channel import Channel, Code, Gone, Packet
from eddyline.twin.protocol import Message

__all__ = ["Workers"]

logger = logging.getLogger(__name__)

# Milliseconds between looks at workers that send nothing.
GLANCE = 200
# Blocks that may wait at an end of the chain. With more, an end core holds less than its share: it
# must not remove a tuple before those have entered that came before it at the other end.
WAITING = 4
# Seconds in which the worker that ended first is told from those that followed it.
ENDING = 0.3


class Workers:
    """A chain of worker processes, joined by sockets; the outer ones lead to this process.

    Workers end with this process, however it ends: their channels close. Any method raises
    ``DeviceError`` once a worker has ended.

    Members
    -------
    ends : pair of Channel
        Where R enters, on the left, and where S enters, on the right.
    pairs : list of array
        Results that have come in: ids of R, ids of S.
    """

    def __init__(self, count: int, chain: str, local: str):
        links = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2 * count + 1)
        ]
        hops, controls = links[: count + 1], links[count + 1 :]
        self._workers: list[Process] = []
        mine = [hops[0][0], hops[-1][1], *(control[0] for control in controls)]
        self._end = weakref.finalize(self, ended, self._workers, mine)
        for place in range(count):
            ends = (hops[place][1], hops[place + 1][0], controls[place][1])
            numbers = [link.fileno() for link in ends]
            arguments = (chain, local, place, count, *numbers)
            self._workers.append(started("eddyline.twin.worker", arguments, numbers))
        # Only one copy of each end may stay open, or nobody would notice that a process is gone.
        for link in (end for pair in links for end in pair):
            if link not in mine:
                link.close()
        self.ends = (Channel(mine[0]), Channel(mine[1]))
        self._entering = [0, 0]
        self._controls = [Channel(link) for link in mine[2:]]
        self.pairs: list[np.ndarray] = []
        logger.info("started %d workers: %s", count, self.pids)

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def close(self) -> None:
        """End the workers; doing so again is harmless."""
        self._end()

    def send(self, end: int, message: Message) -> None:
        """Send a message into the chain; wait, and collect results, while it is full."""
        self._check()
        try:
            while not self.ends[end].room() or (message.item and self._entering[end] >= WAITING):
                self._wait(GLANCE)
            self._entering[end] += message.item is not None
            self.ends[end].append(message)
        except Gone:
            self._fail()

    def broadcast(self, code: Code, a: int = 0, b: int = 0, c: int = 0, data: bytes = b"") -> None:
        """Send a packet to every worker."""
        self._check()
        try:
            for control in self._controls:
                control.send(code, a, b, c, data)
        except Gone:
            self._fail()

    def answers(self, code: Code) -> list[tuple[int, int]]:
        """Wait for one packet of this kind from every worker; return their numbers a and b."""
        found: dict[int, tuple[int, int]] = {}
        while len(found) < len(self._controls):
            for place, packet in self.collect(GLANCE):
                assert packet.code is code
                found[place] = (packet.a, packet.b)
        return [found[place] for place in range(len(self._controls))]

    def collect(self, patience: int = 0) -> list[tuple[int, Packet]]:
        """Take results that are ready, and return other packets with the place of their worker."""
        self._check()
        try:
            return self._wait(patience)
        except Gone:
            self._fail()

    def _wait(self, patience: int) -> list[tuple[int, Packet]]:
        poll = select.poll()
        for channel in (*self.ends, *self._controls):
            poll.register(channel, select.POLLIN | (select.POLLOUT if channel.unsent else 0))
        ready = {number for number, _ in poll.poll(patience)}
        if not ready and any(worker.poll() is not None for worker in self._workers):
            raise Gone
        for end in (0, 1):
            while self.ends[end].fileno() in ready and self.ends[end].receive():
                self._entering[end] -= 1  # an acknowledgement: nothing else comes out here
        others = []
        for place, control in enumerate(self._controls):
            while control.fileno() in ready and (packet := control.receive()):
                if packet.code is Code.PAIRS:
                    self.pairs.append(np.frombuffer(packet.data, np.uint32).reshape(2, -1).copy())
                elif packet.code is Code.FAILED:
                    text = bytes(packet.data).decode(errors="replace")
                    self.close()
                    raise DeviceError(f"worker {place} of {len(self._workers)} failed:\n{text}")
                else:
                    others.append((place, packet))
        for channel in (*self.ends, *self._controls):
            channel.pump()
        return others

    def _check(self) -> None:
        if not self._end.alive:
            raise DeviceError("the workers have ended; start another twin")

    def _fail(self) -> NoReturn:
        """Say which worker ended first: the others end by themselves, with status 0."""
        with suppress(Gone):
            while self._wait(0):  # a worker that failed has said why
                pass
        deadline = time.monotonic() + ENDING
        killed: list[tuple[int, int]] = []
        while not killed and time.monotonic() < deadline:
            statuses = enumerate(worker.poll() for worker in self._workers)
            killed = [(place, status) for place, status in statuses if status]
            time.sleep(0.01)
        self.close()
        for place, status in killed:
            how = f"killed by signal {-status}" if status < 0 else f"status {status}"
            raise DeviceError(
                f"worker {place} of {len(self._workers)} has ended ({how}); "
                "its part of the windows is lost, start another twin"
            )
        raise DeviceError("a worker has closed its channels; start another twin")
