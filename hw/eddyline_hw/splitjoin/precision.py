"""How exact the order of results is (section 5.1 of the paper)."""

from amaranth.lib import data, enum

__all__ = ["LOG_BITS", "Precision", "precision_layout"]

LOG_BITS = 4


class Precision(enum.Enum, shape=2):
    """How results are ordered.

    ``NONE``: in any order. ``OUTER``: a star closes every N arrivals. ``INNER``: a star closes
    every arrival, and results of an arrival come oldest partner first, with a star after every N
    intervals of ``cores`` partners.
    """

    NONE = 0
    OUTER = 1
    INNER = 2


def precision_layout():
    """Return the settings that tell how exact the order is."""
    return data.StructLayout({"mode": Precision, "every": 16, "log": LOG_BITS, "adaptive": 1})
