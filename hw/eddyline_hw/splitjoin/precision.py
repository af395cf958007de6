"""How exact the order of results is (section 5.1 of the paper)."""

from amaranth.lib import data, enum

__all__ = ["LOG_BITS", "Precision", "order_settings", "precision_layout"]

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


def order_settings(mode, every=1):
    """Return the values of the operator's settings for this order.

    ``every`` is the interval of stars: arrivals with ``OUTER``, intervals of as many partners as
    there are cores with ``INNER``, then a power of two.
    """
    if not 1 <= every < 1 << 16:
        raise ValueError(f"a star after every {every!r} is not within 1 and {(1 << 16) - 1}")
    inner = mode is Precision.INNER
    if inner and every & (every - 1):
        raise ValueError(f"an interval of inner order must be a power of two, not {every!r}")
    return {
        "precision_mode": mode.value,
        "outer_every": 1 if inner else every,
        "inner_log": every.bit_length() - 1 if inner else 0,
    }
