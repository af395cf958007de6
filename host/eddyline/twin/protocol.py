"""One core of the asynchronous handshake chain: figure 7 of the paper, with its errata applied.

A core is a state machine over messages and knows nothing of time, threads or wires, so that the
same class is run by a random scheduler, by worker processes, and beside the gateware.

R is side 0: it enters a core through port 0 (the left) and leaves through port 1. S is side 1 and
goes the other way. A message on port ``p`` is therefore a tuple of side ``p`` from upstream, or an
acknowledgement for a tuple of side ``1 - p`` from downstream, on one and the same channel.

Where the listing is wrong:

* Tuples that cross in flight are compared by both cores. S skips R tuples already marked as sent;
  R does not skip S, so one of the two cores compares.
* Line 16 sends a tuple on at every arrival, so that everything walks to the last core. A core
  sends only while it holds more unsent tuples than its share.
* The acknowledgement that comes from the end of the chain (section 4.3) can overtake the tuple it
  removes. It waits at the head of its queue until that tuple is there.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Any, Protocol

__all__ = ["ALL", "Core", "Item", "Kind", "Message", "Outbox", "split"]

R, S = 0, 1
ALL = 1 << 62


class Kind(Enum):
    """What a message is.

    ``DRAIN`` sends every tuple of its side below a number to the end of the chain, whatever the
    shares; ``STAR`` follows it through the chain and closes what came before.
    """

    TUPLE = auto()
    ACK = auto()
    DRAIN = auto()
    STAR = auto()


@dataclass(frozen=True, slots=True)
class Item:
    """What travels as one: a tuple, or a block of consecutive tuples of one side.

    ``number`` is that of its newest tuple, counted per side; ``weight`` is its part of a share.
    """

    side: int
    number: int
    content: Any
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Message:
    """``item`` belongs to a tuple; ``until`` and, where it changes, ``share`` to a drain."""

    kind: Kind
    item: Item | None = None
    until: int = 0
    share: int | None = None


class Outbox(Protocol):
    """The sending end of a channel."""

    def append(self, message: Message, /) -> None: ...

    def room(self) -> bool:
        """Say whether a tuple, drain or star may follow. Acknowledgements always may."""


class Core:
    """Two window segments and the rules by which tuples pass through them.

    A channel never needs more places than ``credit`` acknowledgements and the tuples that
    :meth:`Outbox.room` allows: a tuple in flight is one that the neighbour will acknowledge.

    Parameters
    ----------
    place, cores : int
        Position in the chain, from the left, and its length.
    shares : pair of int
        Weight of R and of S that may stay here. The last core of a side keeps what it gets.
    outboxes : pair of Outbox
        Channels to the left and to the right neighbour; at an end, acknowledgements to the source
        of a stream, which may ignore them.
    compare : function of an item and the items it meets
        The local join. The item is stored right after the call.
    credit : int
        Most items of a side in flight to the next core, at least 1.
    slack : int
        How much less than its share the last core of a side may be left with by an
        acknowledgement from the end of the chain, which otherwise waits. Without a limit, a chain
        that is fed as fast as it takes tuples keeps them in its middle and idles at its ends.
    as_printed : bool
        Follow the listing to the letter, errors and all.

    Members
    -------
    held : pair of deque
        Items of either side, oldest first; the first ``sent[side]`` of them are marked as sent.
    stars : int
        Stars for which everything before them has been compared here.
    """

    def __init__(
        self,
        place: int,
        cores: int,
        shares: Iterable[int],
        outboxes: tuple[Outbox, Outbox],
        compare: Callable[[Item, list[Item]], None],
        *,
        credit: int = ALL,
        slack: int = ALL,
        as_printed: bool = False,
    ):
        if credit < 1:
            raise ValueError(f"credit must be at least 1, not {credit}")
        self.exit = (place == cores - 1, place == 0)
        self.share = list(shares)
        self.outboxes = outboxes
        self.compare = compare
        self.credit = credit
        self.slack = slack
        self.as_printed = as_printed
        self.held: tuple[deque[Item], deque[Item]] = (deque(), deque())
        self.sent = [0, 0]
        self.unsent_weight = [0, 0]
        self.until = [0, 0]
        self.stars = 0
        self._marked = [0, 0]
        self._starred = [False, False]
        self._passed = [False, False]

    def accepts(self, port: int, message: Message) -> bool:
        """Say whether the message at the head of a queue can be processed now."""
        if message.kind is Kind.ACK:
            return self.as_printed or self._removable(1 - port)
        if self._starred[port]:
            return False
        if message.kind is Kind.DRAIN:
            return self.exit[port] or self.outboxes[1 - port].room()
        return True

    def take(self, port: int, message: Message) -> None:
        """Process a message that :meth:`accepts` allows."""
        match message.kind:
            case Kind.TUPLE:
                assert message.item is not None
                self._meet(port, message.item)
            case Kind.ACK:
                self._remove(1 - port)
            case Kind.DRAIN:
                self.until[port] = max(self.until[port], message.until)
                if message.share is not None:
                    self.share[port] = message.share
                if not self.exit[port]:
                    self.outboxes[1 - port].append(message)
            case Kind.STAR:
                self._starred[port] = True

    def forward(self, side: int) -> bool:
        """Send the oldest unsent item of a side on, or the star behind the last; one at a time."""
        if self._due(side):
            outbox = self.outboxes[1 - side]
            if self.sent[side] >= self.credit or not outbox.room():
                return False
            item = self.held[side][self.sent[side]]
            outbox.append(Message(Kind.TUPLE, item))
            self.sent[side] += 1
            self.unsent_weight[side] -= item.weight
            self._marked[side] -= 1
            return True
        if self._starred[side] and not self._passed[side]:
            if not self.exit[side]:
                if not self.outboxes[1 - side].room():
                    return False
                self.outboxes[1 - side].append(Message(Kind.STAR))
            self._passed[side] = True
            if all(self._passed):
                self._close()
            return True
        return False

    def _removable(self, side: int) -> bool:
        if not self.exit[side] or not self.held[side]:
            return bool(self.held[side])
        left = self.unsent_weight[side] - self.held[side][0].weight
        return left >= self.share[side] - self.slack

    def _meet(self, side: int, item: Item) -> None:
        other = 1 - side
        skipped = self.sent[other] if side == S and not self.as_printed else 0
        self.compare(item, list(islice(self.held[other], skipped, None)))
        self.held[side].append(item)
        self.unsent_weight[side] += item.weight
        self._marked[side] += 1
        self.outboxes[side].append(Message(Kind.ACK))

    def _remove(self, side: int) -> None:
        if not self.held[side]:
            return
        item = self.held[side].popleft()
        if self.sent[side]:
            self.sent[side] -= 1
        else:
            self.unsent_weight[side] -= item.weight

    def _due(self, side: int) -> bool:
        unsent = len(self.held[side]) - self.sent[side]
        if self.exit[side] or not unsent:
            return False
        oldest = self.held[side][self.sent[side]]
        too_many = self.unsent_weight[side] > self.share[side]
        if self.as_printed:
            too_many = self._marked[side] > 0
        return too_many or oldest.number < self.until[side]

    def _close(self) -> None:
        """Both stars have passed: after a complete drain, empty the windows."""
        for side in (R, S):
            if self.until[side] >= ALL:
                # Copies marked as sent are left to their acknowledgements, which are on their way
                # and arrive before anything that could be compared with them.
                while len(self.held[side]) > self.sent[side]:
                    self.held[side].pop()
                self.unsent_weight[side] = self.until[side] = 0
        self._starred = [False, False]
        self._passed = [False, False]
        self.stars += 1


def split(size: int, cores: int) -> list[int]:
    """Divide a window among cores, counted from where its side enters; shares may be zero."""
    return [size // cores + (place < size % cores) for place in range(cores)]
