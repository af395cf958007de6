"""Numbered payloads: how a proof sees that nothing is lost, doubled or overtaken.

Every input numbers its payloads, and an output must see each input's numbers without a gap. The
blocks never look into a payload (a star apart), so what holds for numbers holds for anything.
Numbers wrap around; their range exceeds what a block can hold, so that no loss can hide behind it.
"""

from amaranth import Assert, Assume, Signal

from eddyline_hw.stream.buffer import Buffer
from eddyline_hw.stream.trusting import TrustingFifo

__all__ = ["assume_numbered", "count", "in_order", "places"]


def count(m, happens, name, bits):
    """Return how often ``happens`` was true before this cycle."""
    number = Signal(bits, name=name)
    m.d.sync += number.eq(number + happens)
    return number


def assume_numbered(m, port, number, *, name):
    """Make a stream number its payloads and return how many were taken from it."""
    taken = count(m, port.valid & port.ready, name, len(number))
    m.d.comb += Assume(~port.valid | (number == taken))
    return taken


def in_order(m, slots, *, left, entered):
    """Assert that ``slots``, from the output back to the input, hold all that is under way.

    A slot is whether a place holds a payload of this input, that payload's number, and whether it
    counts; ``left`` and ``entered`` are how many that count have left and entered the block.
    """
    expected = left
    for occupied, number, counts in slots:
        m.d.comb += Assert(~occupied | (number == expected))
        expected = (expected + (occupied & counts))[: len(left)]
    m.d.comb += Assert(expected == entered)


def places(m, queue):
    """Return (occupied, payload) of each place of a queue, output first.

    Also asserts what induction must know of the queue's state. The queue must not have been
    elaborated yet.
    """
    if isinstance(queue, Buffer):
        m.d.comb += Assert(queue._room | queue.o.valid)
        return [(queue.o.valid, queue.o.payload), (~queue._room, queue._spare)]

    depth = queue.depth
    if isinstance(queue, TrustingFifo):
        stored = (queue._tail - queue._head)[: len(queue._tail)]  # a place is always free
        m.d.comb += [Assert(queue.levels[n] == (stored > n)) for n in range(depth)]
        return _filled(m, queue, stored)

    stored = (depth + queue._tail - queue._head) % depth  # a place is always free
    m.d.comb += [
        Assert(queue._head < depth),
        Assert(queue._tail < depth),
        Assert(queue._after_head == (queue._head + 1) % depth),
        Assert(queue._after_tail == (queue._tail + 1) % depth),
        Assert(queue._beyond == (queue._tail + 2) % depth),
        Assert(queue._readable == (stored != 0)),
        Assert(queue.level + queue._wrote - queue._took == stored),
        Assert(queue.level < depth),
        Assert(queue.peak < depth),
    ]
    m.d.comb += [
        # Nothing overflows, and the queue is open again once three places are free.
        Assert(~queue.i.ready | (stored != depth - 1)),
        Assert(queue.i.ready | (stored >= depth - 3)),
    ]
    return _filled(m, queue, stored)


def _filled(m, queue, stored):
    """Return the places of a queue whose memory holds ``stored`` payloads from its head on."""
    depth = queue.depth
    m.d.comb += [Assert(queue.o.valid | ~queue.o.payload[bit]) for bit in queue.clears]
    found = [(queue.o.valid, queue.o.payload)]
    for place in range(depth - 1):
        probe = queue._storage.read_port(domain="comb")
        payload = Signal(queue.shape)
        m.d.comb += [probe.addr.eq((queue._head + place) % depth), payload.eq(probe.data)]
        found.append((place < stored, payload))
    return found
