"""Counts too wide for the carry of one cycle."""

from amaranth import Signal, Value

__all__ = ["tally"]


def tally(m, total, step):
    """Add ``step`` to ``total`` in every cycle; ``total`` follows two cycles late.

    The lower half is added up a cycle before the upper one, and shown together with it: no carry
    goes further than half of the way, and what is shown is never half old and half new. The step
    has a cycle for its way to the count.
    """
    half = len(total) // 2
    low, carry = Signal(half, name=f"{total.name}_low"), Signal(name=f"{total.name}_carry")
    near = Signal.like(Value.cast(step), name=f"{total.name}_step")
    added = low + near
    m.d.sync += [
        near.eq(step),
        low.eq(added),
        carry.eq(added[half:] != 0),
        total[:half].eq(low),
        total[half:].eq(total[half:] + carry),
    ]
