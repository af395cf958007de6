"""What neighbours of the asynchronous chain tell each other."""

from amaranth.lib import data, enum

from eddyline_hw.layouts import entry_layout

__all__ = ["Kind", "link_layout"]


class Kind(enum.Enum, shape=2):
    """Kinds of messages. All kinds share a channel: their order is what makes the join exact."""

    TUPLE = 0  # a tuple moves on
    ACK = 1  # the oldest tuple that came the other way may be forgotten
    STAR = 2  # everything before it has been said
    DRAIN = 3  # pass on all tuples, keep none


def link_layout(plan):
    """Return a message: a tuple with ``TUPLE``.

    An ``ACK`` at the end of the chain with ``pushed`` set carries the tuple that pushes another
    one out of its window.
    """
    return data.StructLayout({"kind": Kind, "pushed": 1, "entry": entry_layout(plan)})
