"""What every window looks like from outside, so that a core need not know which one it has."""

from amaranth.lib import data
from amaranth.lib.wiring import In, Out

__all__ = ["place_layout", "slot_layout", "window_members"]


def slot_layout(shape):
    """Return a window slot: a tuple, or a bubble that is not valid."""
    return data.StructLayout({"valid": 1, "entry": shape})


def place_layout(slots, lanes):
    """Return the place of a slot: slots are numbered along the lanes of a row, then by row."""
    return data.StructLayout({"row": range(-(-slots // lanes)), "lane": range(lanes)})


def window_members(shape, slots, lanes):
    """Return the members that all windows share.

    ``last``
        Place of the last slot in use; the window holds that many tuples and one. Constant while
        tuples are inside.
    ``clear``
        Empty the window in this cycle.
    ``push``, ``entering``, ``leaving``
        A tuple or bubble enters in the cycle of ``push``; ``leaving`` shows, in that cycle, what
        falls out. Two pushes must be at least ``interval`` cycles apart.
    ``row``, ``lanes``
        ``lanes`` shows, ``latency`` cycles later, what the slots of ``row`` held. Not in the
        cycle of a push: then the window itself looks up what will leave next.
    """
    return {
        "last": In(place_layout(slots, lanes)),
        "clear": In(1),
        "push": In(1),
        "entering": In(slot_layout(shape)),
        "leaving": Out(slot_layout(shape)),
        "row": In(range(-(-slots // lanes))),
        "lanes": Out(slot_layout(shape)).array(lanes),
    }
