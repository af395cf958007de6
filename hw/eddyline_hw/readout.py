"""Counters of the cores, one core at a time."""

from amaranth import Array, Signal

__all__ = ["read_out"]

FAN_BITS = 2
FAN_IN = 1 << FAN_BITS


def read_out(m, operator, counters, cores):
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
    """
    for name in counters:
        level, chosen = [getattr(core, name) for core in cores], operator.selected
        while True:
            kept = [
                Signal.like(value, name=f"{name}_{len(level)}_{n}") for n, value in enumerate(level)
            ]
            m.d.sync += [copy.eq(value) for copy, value in zip(kept, level, strict=True)]
            if len(kept) == 1:
                break
            groups = [kept[start : start + FAN_IN] for start in range(0, len(kept), FAN_IN)]
            level = [Array(group)[chosen[:FAN_BITS]] for group in groups]
            chosen = chosen[FAN_BITS:]
        m.d.comb += getattr(operator, name).eq(kept[0])
