"""Counters of the cores, one core at a time."""

from amaranth import Array, Signal

__all__ = ["read_out"]

COUNTERS = {"dropped_results": "dropped", "comparisons": "comparisons", "peak": "peak"}


def read_out(m, chain):
    """Show the counters of the core that ``chain.selected`` names, some cycles later.

    Registered at the core and at the chain: reading is slow anyway, and must not cost any clock.
    """
    for name, own in COUNTERS.items():
        values = []
        for position, core in enumerate(chain.core):
            copy = Signal.like(getattr(core, own), name=f"{name}_{position}")
            m.d.sync += copy.eq(getattr(core, own))
            values.append(copy)
        m.d.sync += getattr(chain, name).eq(Array(values)[chain.selected])
