"""Producers that look for room, and what induction must know of the queues they fill.

A producer may push whenever it saw room in one of the last ``flight`` cycles or in this one. That
is more than the queues ask for: there, one look allows for one push.
"""

from amaranth import Assert, Assume, Cat

from tests.formal.foretell import later
from tests.formal.tags import count, places

__all__ = ["BITS", "held", "numbers", "seen"]

BITS = 5  # numbers: more than a queue holds


def seen(m, queue):
    """Let the producer respect ``room``; return whether there was some 0, 1, 2, … cycles ago."""
    looks = [later(m, queue.room, cycles, f"room{cycles}") for cycles in range(queue.flight + 1)]
    m.d.comb += Assume(~queue.push | Cat(looks).any())
    return looks


def held(m, queue, looks):
    """Return (occupied, payload) of each place, output first; assert what induction must know."""
    found = places(m, queue._fifo)
    stored = sum(occupied for occupied, _ in found[1:])
    allowed = queue.depth - queue.BEHIND - queue.flight
    m.d.comb += Assert(queue.room | (stored + 2 >= allowed))  # it is told again in time
    # With room, fewer than allowed were known of, and a push was not.
    for cycles, room in enumerate(looks):
        m.d.comb += Assert(~room | (stored <= allowed + cycles))
    return found


def numbers(m, dut, payload):
    """Claim that numbered payloads come out in order, and that nothing is ever lost."""
    entered = count(m, dut.push, "entered", BITS)
    left = count(m, dut.o.valid & dut.o.ready, "left", BITS)
    m.d.comb += [
        Assume(~dut.push | (payload == entered)),
        Assert(~dut.o.valid | (dut.o.payload == left)),
        Assert(~dut.overrun),
    ]
    return entered, left
