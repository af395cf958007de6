"""A worker process: one core of the chain. Started by :class:`eddyline.twin.HandshakeTwin`.

It ends when the dispatcher or a neighbour is gone, which closes its channels.
"""

import os
import select
import socket
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque

import numpy as np

from eddyline.plan import Plan
from eddyline.twin.admission import block_dtype
from eddyline.twin.channel import Channel, Code, Gone, Packet, decode
from eddyline.twin.local import LocalJoin, NestedLoop
from eddyline.twin.merge import MergeJoin
from eddyline.twin.protocol import Core, Item, Kind, Message

__all__ = ["main"]

# Blocks in flight to a neighbour: enough to hide a change of process.
CREDIT = 4
# Blocks that the last core may lack of its share. At rest it lacks at most two: one that has not
# entered yet, one for rounding; see Core.
SLACK = 4
RESULTS = 8192


class Worker(ABC):
    """What both kinds of chain have in common: channels, the local join, results, waiting.

    Parameters
    ----------
    place, cores : int
        Position in the chain, from the left, and its length.
    local : str
        ``nested`` or ``merge``.
    links : list of socket
        To the left, to the right, and to the dispatcher's control.
    """

    def __init__(self, place: int, cores: int, local: str, links: list[socket.socket]):
        self.place = place
        self.cores = cores
        self.exit = (place == cores - 1, place == 0)
        self.ports = (Channel(links[0]), Channel(links[1]))
        self.control = Channel(links[2])
        self.held: tuple[deque[Item], deque[Item]] = (deque(), deque())
        self.dtypes: tuple[np.dtype, np.dtype]
        self._local = local
        self._join: LocalJoin
        self._began = 0

    def run(self) -> None:
        """Work until a channel closes."""
        self.configure(self.receive(self.control))
        while True:
            self.turn()

    @abstractmethod
    def turn(self) -> None:
        """Do what can be done, or wait for something to do."""

    def configure(self, packet: Packet) -> None:
        plan = Plan.from_json(bytes(packet.data).decode())
        self._join = MergeJoin(plan) if self._local == "merge" else NestedLoop(plan)
        self.dtypes = (block_dtype(plan.r), block_dtype(plan.s))
        self._began = time.process_time_ns()
        self.control.send(Code.READY)

    def compare(self, item: Item, partners: list[Item]) -> None:
        """Join a block that is about to be stored, and send the pairs."""
        held = self.held[item.side]
        oldest = held[0] if held else item
        pairs = self._join.enter(item, partners, keep_from=oldest.number + 1 - oldest.weight)
        for first in range(0, len(pairs[0]), RESULTS):
            part = np.array([ids[first : first + RESULTS] for ids in pairs], np.uint32)
            self.control.send(Code.PAIRS, data=part.data.cast("B"))

    def report(self) -> None:
        """Answer a star: everything before it has been compared here."""
        busy = time.process_time_ns() - self._began
        self.control.send(Code.STAR, busy, self._join.comparisons)

    def receive(self, channel: Channel) -> Packet:
        while (packet := channel.receive()) is None:
            self.wait(channel)
        return packet

    def wait(self, *wanted: Channel) -> None:
        """Sleep until one of these has a packet, or something unsent can be sent."""
        poll = select.poll()
        channels = (*self.ports, self.control)
        for channel in channels:
            events = select.POLLIN if channel in wanted else 0
            poll.register(channel, events | (select.POLLOUT if channel.unsent else 0))
        for _, events in poll.poll():
            if events & select.POLLHUP and not events & select.POLLIN:
                raise Gone
        for channel in channels:
            channel.pump()


class AsynchronousWorker(Worker):
    """Runs the protocol of section 4.2 on blocks."""

    def configure(self, packet: Packet) -> None:
        # The dispatcher says what the shares are before it sends the first block.
        self._core = Core(
            self.place, self.cores, (0, 0), self.ports, self.compare,
            credit=CREDIT, slack=SLACK * packet.a,
        )  # fmt: skip
        self.held = self._core.held
        self._heads: list[Message | None] = [None, None]
        super().configure(packet)

    def turn(self) -> None:
        core, moved = self._core, False
        for port in (0, 1):
            head = self._heads[port]
            # Results that nobody has collected yet hold the whole core up.
            if head is None and self.control.room():
                packet = self.ports[port].receive()
                head = decode(packet, port, self.dtypes[port]) if packet else None
            if head is not None and core.accepts(port, head):
                core.take(port, head)
                head, moved = None, True
            self._heads[port] = head
        stars = core.stars
        for side in (0, 1):
            while core.forward(side):
                moved = True
        if core.stars > stars:
            self.report()
        if moved:
            return
        packet = self.control.receive()
        if packet:
            self.configure(packet)
        elif self.control.room():
            free = [self.ports[port] for port in (0, 1) if self._heads[port] is None]
            self.wait(self.control, *free)
        else:
            self.wait(self.control)


class LockStepWorker(Worker):
    """Takes and hands on one block per step, when the dispatcher says so (section 4.1)."""

    def turn(self) -> None:
        packet = self.receive(self.control)
        match packet.code:
            case Code.CONFIGURE:
                self.configure(packet)
            case Code.STEP:
                self._step(packet.a, packet.b, packet.c)
            case Code.STAR:
                for held in self.held:
                    held.clear()
                self.report()

    def _step(self, side: int, share: int, until: int) -> None:
        own = self.held[side]
        if not self.exit[side]:
            if own and (sum(item.weight for item in own) > share or own[0].number < until):
                self.ports[1 - side].append(Message(Kind.TUPLE, own.popleft()))
            else:
                self.ports[1 - side].send(Code.BUBBLE)
        packet = self.receive(self.ports[side])
        if packet.code is Code.TUPLE:
            item = decode(packet, side, self.dtypes[side]).item
            assert item is not None
            self.compare(item, list(self.held[1 - side]))
            own.append(item)
            if self.exit[1 - side]:
                self.ports[side].send(Code.ACK)
        # At its last core a block has met all that came before; if nothing new needs it, it goes.
        while self.exit[side] and own and own[0].number < until:
            own.popleft()
        self.control.send(Code.DONE, 0 if self.exit[side] else len(own))


WORKERS = {"asynchronous": AsynchronousWorker, "lockstep": LockStepWorker}


def main() -> None:
    """Run the core that the command line describes, on sockets inherited by number."""
    chain, local, *numbers = sys.argv[1:]
    place, cores, *links = map(int, numbers)
    worker = WORKERS[chain](place, cores, local, [socket.socket(fileno=fd) for fd in links])
    try:
        worker.run()
    except Gone:
        pass
    except Exception:
        text = traceback.format_exc().encode()[-4096:]
        worker.control.link.setblocking(True)
        worker.control.send(Code.FAILED, data=text)
    # What is left is of no use to anybody, and an interpreter takes its time to end.
    os._exit(0)


if __name__ == "__main__":
    main()
