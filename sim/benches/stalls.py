"""Queues that stall at random, to be put in place of those inside a block."""

from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from unittest import mock

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring

from eddyline_hw.stream import room, tickets
from eddyline_hw.stream.fifo import Fifo
from eddyline_hw.stream.mailbox import Mailbox
from eddyline_hw.stream.trusting import TrustingFifo

__all__ = ["Stalling", "StallingRoom", "stalling_queues", "stalling_rooms"]

TAPS = (16, 15, 13, 4)  # of a maximal shift register with 16 bits


class Moods:
    """Decide at random, again and again, whether something goes on.

    Long and short pauses alternate. Each has its own generator, which reset does not touch, so
    that no two runs are alike.
    """

    numbers = count(1)

    def __init__(self, m):
        seed = next(Moods.numbers) * 40503 % 65535 + 1
        state = Signal(16, init=seed, reset_less=True)
        bit = 0
        for tap in TAPS:
            bit = bit ^ state[tap - 1]
        m.d.sync += state.eq(Cat(bit, state))

        mood = Signal(2, reset_less=True)
        with m.If(state[:6] == 0):
            m.d.sync += mood.eq(state[8:10])
        self.opens = Signal()
        with m.Switch(mood):
            with m.Case(0):
                m.d.comb += self.opens.eq(1)
            with m.Case(1):
                m.d.comb += self.opens.eq(state[0])
            with m.Case(2):
                m.d.comb += self.opens.eq(state[:3] == 0)
            with m.Case(3):
                m.d.comb += self.opens.eq(state[:5] == 0)


class Stalling(wiring.Component):
    """A queue that hides what it has for a random number of cycles, again and again.

    An offer that was made is kept. A bit that is 0 while nothing is on offer is so while it is
    hidden.

    Parameters
    ----------
    queue : Component
        What is hidden. Members are the same.
    """

    def __init__(self, queue):
        self.queue = queue
        super().__init__(queue.signature)

    def elaborate(self, platform):
        m = Module()

        m.submodules.queue = queue = self.queue
        wiring.connect(m, wiring.flipped(self.i), queue.i)

        shown = Signal()
        opens = Moods(m).opens
        m.d.comb += [
            self.o.valid.eq(queue.o.valid & (opens | shown)),
            self.o.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.o.ready & (opens | shown)),
        ]
        if clears := getattr(self.queue, "clears", None):
            with m.If(~self.o.valid):
                m.d.comb += [self.o.payload[name].eq(0) for name in clears]
        for name in self.signature.members.keys() - {"i", "o"}:
            m.d.comb += getattr(self, name).eq(getattr(queue, name))
        m.d.sync += shown.eq(self.o.valid & ~self.o.ready)

        return m


class StallingRoom(room.RoomQueue):
    """A queue that says at random that it has no room."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(~Moods(m).opens):
            m.d.sync += self.room.eq(0)
        return m


@contextmanager
def stalling_queues(*modules):
    """Let the blocks of ``modules`` take these queues, if they are elaborated meanwhile."""
    Moods.numbers = count(1)
    with ExitStack() as stack:
        for module in modules:
            for kind in (Fifo, Mailbox, TrustingFifo):
                if hasattr(module, kind.__name__):
                    stack.enter_context(
                        mock.patch.object(module, kind.__name__, partial(_stalling, kind))
                    )
        yield


@contextmanager
def stalling_rooms(*modules):
    """Let all queues of tickets, and the queues with room of ``modules``, stall at both ends.

    Holds for those that are made meanwhile.
    """
    with ExitStack() as stack:
        stack.enter_context(stalling_queues(room))
        for module in (tickets, *modules):
            stack.enter_context(mock.patch.object(module, "RoomQueue", StallingRoom))
        yield


def _stalling(kind, *parameters, **options):
    return Stalling(kind(*parameters, **options))
