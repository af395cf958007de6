"""Counters of the cores, one core at a time."""

from amaranth import Array, Signal

__all__ = ["read_out"]


def read_out(m, operator, counters, cores, *, chosen=None, fan_bits=2):
    """Show the counters of the core that ``operator.selected`` names, some cycles later.

    Registered at the cores and after each of a few multiplexers: reading is slow anyway, and must
    not cost any clock.

    Parameters
    ----------
    m : Module
        Where the registers go.
    operator : Component
        Has the counters as members.
    counters : iterable of str
        Their names.
    cores : list of Component
        Have them, too.
    chosen : value, optional
        A copy of ``operator.selected`` to go by.
    fan_bits : int
        Bits of it that each multiplexer takes.
    """
    for name in counters:
        level = [getattr(core, name) for core in cores]
        which = operator.selected if chosen is None else chosen
        while True:
            kept = [
                Signal.like(value, name=f"{name}_{len(level)}_{n}") for n, value in enumerate(level)
            ]
            m.d.sync += [copy.eq(value) for copy, value in zip(kept, level, strict=True)]
            if len(kept) == 1:
                break
            groups = [
                kept[start : start + (1 << fan_bits)]
                for start in range(0, len(kept), 1 << fan_bits)
            ]
            level = [Array(group)[which[:fan_bits]] for group in groups]
            which = which[fan_bits:]
        m.d.comb += getattr(operator, name).eq(kept[0])
