"""The asynchronous chain on one thread, its messages delivered in an order drawn from a seed.

Whatever the scheduler does, the pairs must be those of :mod:`eddyline.reference`.
"""

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from eddyline.plan import Window
from eddyline.reference import Arrival
from eddyline.twin.model import Model
from eddyline.twin.protocol import ALL, Core, Item, Kind, Message, split

__all__ = ["Chain", "Deadlock"]

R, S = 0, 1
ACK, STAR = Message(Kind.ACK), Message(Kind.STAR)
# How willing a queue or core is to move while a spell lasts: a stall, a crawl, full speed.
SPEEDS = (0.001, 0.05, 1.0)
SPELL = 25


class Deadlock(Exception):
    """Messages are left and nothing can move."""


class _Channel(deque[Message]):
    """A queue with a bounded number of messages other than acknowledgements."""

    def __init__(self, depth: int):
        super().__init__()
        self.depth = depth
        self.peak = 0

    def append(self, message: Message) -> None:
        super().append(message)
        self.peak = max(self.peak, len(self))

    def room(self) -> bool:
        return sum(message.kind is not Kind.ACK for message in self) < self.depth


class Chain(Model):
    """A chain of :class:`Core` with stalls everywhere.

    Windows of rows are exact by the end-of-chain acknowledgements of section 4.3, sent once a
    window is full. A time window without a capacity expires by time stamps (section 3.6): tuples
    that are too old are drained to the end of the chain and removed there.

    Parameters
    ----------
    cores, matches, window_r, window_s, capacity
        As for :class:`Model`.
    seed : int
        Of the scheduler.
    depth : int
        Tuples, drains and stars that a channel takes; it then holds up to ``2 * depth`` messages.
    slack : int
        As for :class:`Core`; for windows of rows, 0 is enough.
    as_printed : bool
        The paper's listing to the letter; its results are wrong.
    """

    def __init__(
        self,
        cores: int,
        matches: Callable[[Any, Any], bool],
        window_r: Window,
        window_s: Window,
        capacity: tuple[int | None, int | None] = (None, None),
        *,
        seed: int = 0,
        depth: int = 2,
        slack: int = ALL,
        as_printed: bool = False,
    ):
        super().__init__(cores, matches, window_r, window_s, capacity)
        self._random = random.Random(seed)
        self._pending: deque[tuple[int, Message]] = deque()
        self._live: tuple[deque[int], deque[int]] = (deque(), deque())
        self._count = [0, 0]
        # inboxes[place][port]
        self.inboxes = [(_Channel(depth), _Channel(depth)) for _ in range(cores)]
        shares = [split(1 if size is None else size, cores) for size in self.sizes]
        self.nodes = [
            Core(
                place,
                cores,
                (shares[R][place], shares[S][cores - 1 - place]),
                (
                    self.inboxes[place - 1][1] if place else _Channel(depth),
                    self.inboxes[place + 1][0] if place + 1 < cores else _Channel(depth),
                ),
                partial(self._compare, place),
                credit=depth,
                slack=slack,
                as_printed=as_printed,
            )
            for place in range(cores)
        ]
        self._moves = [(self._admit, (cores,))] + [
            (move, (place, way))
            for place in range(cores)
            for way in (0, 1)
            for move in (self._deliver, self._forward)
        ]
        self._speeds: list[float] = []
        self._steps = 0

    def push(self, new: Arrival) -> None:
        """Queue an arrival for admission, and let a few things happen."""
        side = "rs".index(new.side)
        other = 1 - side
        if self.sizes[other] is None and self.windows[other].kind == "time":
            self._expire(other, new.time - self.windows[other].size)
        self._send(side, Message(Kind.TUPLE, Item(side, self._count[side], new)))
        if self.leaves(new):
            self._send(other, ACK)
        self._live[side].append(new.time)
        self._count[side] += 1
        for _ in range(self._random.randrange(8)):
            self._step()

    def flush(self) -> None:
        """Let every remaining pair meet and empty the windows.

        Raises
        ------
        Deadlock
            If the chain gets stuck.
        """
        for message in (Message(Kind.DRAIN, until=ALL), STAR):
            self._send(R, message)
            self._send(S, message)
        stars = self.nodes[0].stars + 1
        while any(node.stars < stars for node in self.nodes):
            if not self._step():
                raise Deadlock(f"nothing moves and {len(self._pending)} messages wait outside")
        self.forget()
        for live in self._live:
            live.clear()

    def _send(self, end: int, message: Message) -> None:
        self._pending.append((end, message))

    def _expire(self, side: int, horizon: int) -> None:
        live = self._live[side]
        expired = sum(time < horizon for time in live)
        if expired:
            self._send(side, Message(Kind.DRAIN, until=self._count[side] - len(live) + expired))
            for _ in range(expired):
                live.popleft()
                self._send(1 - side, ACK)

    def _compare(self, place: int, probe: Item, partners: list[Item]) -> None:
        self.meet(place, probe.content, [partner.content for partner in partners])

    def _step(self) -> bool:
        """Make one move, drawn from those that are possible; say whether there was one."""
        if self._steps % SPELL == 0:
            self._speeds = self._random.choices(SPEEDS, k=len(self._moves))
        self._steps += 1
        # Trying in a random order is drawing among the possible moves, without listing them.
        order = sorted(
            range(len(self._moves)), key=lambda i: self._random.random() ** (1 / self._speeds[i])
        )
        for i in reversed(order):
            move, arguments = self._moves[i]
            if move(*arguments):
                return True
        return False

    def _admit(self, cores: int) -> bool:
        """Let the next message of the one order in, at its end of the chain."""
        if not self._pending:
            return False
        end, message = self._pending[0]
        inbox = self.inboxes[0 if end == R else cores - 1][end]
        if len(inbox) >= inbox.depth:
            return False
        inbox.append(message)
        self._pending.popleft()
        return True

    def _deliver(self, place: int, port: int) -> bool:
        inbox = self.inboxes[place][port]
        if not inbox or not self.nodes[place].accepts(port, inbox[0]):
            return False
        self.nodes[place].take(port, inbox.popleft())
        return True

    def _forward(self, place: int, side: int) -> bool:
        return self.nodes[place].forward(side)
