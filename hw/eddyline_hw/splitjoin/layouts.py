"""What travels through a SplitJoin operator."""

from amaranth.lib import data

from eddyline_hw.handshake.serializer import hits_layout
from eddyline_hw.layouts import entry_layout, result_layout

__all__ = ["item_layout", "joined_layout", "packet_layout", "record_layout", "row_layout"]


def packet_layout(plan, log_bits=4):
    """Return what the distributor sends to all cores: a tuple, or else a punctuation.

    ``closes``
        A star comes behind the results of this packet; with ``both`` on either side's stream.
    ``inner``, ``log``
        Partners are read oldest first, with a star after every ``2 ** log`` of them. From a
        punctuation's star on, results are merged in sequence.
    ``sync``
        The star answers a message.
    ``hidden``
        The star only tells the mergers how to go on, it does not leave the operator.
    ``flush``
        The windows are emptied.
    """
    return data.StructLayout(
        {
            "tuple": 1,
            "side": 1,
            "closes": 1,
            "both": 1,
            "inner": 1,
            "log": log_bits,
            "sync": 1,
            "hidden": 1,
            "flush": 1,
            "entry": entry_layout(plan),
        }
    )


def marks_layout(lanes):
    """Return the stars among the results of a row.

    ``marks`` are lanes behind which a star comes; ``closes`` is the star behind all of them.
    """
    return data.StructLayout(
        {"marks": lanes, "closes": 1, "both": 1, "ordered": 1, "sync": 1, "hidden": 1}
    )


def row_layout(plan, lanes, carried=()):
    """Return the hits of a probe in one row, and the stars among them."""
    return data.StructLayout(
        {"found": hits_layout(plan, lanes, carried), "stars": marks_layout(lanes)}
    )


def item_layout(plan, carried=()):
    """Return what cores and mergers pass on: a result, and what to do with it."""
    joined = dict(joined_layout(plan, carried))
    shapes = {name: field.shape for name, field in joined.items()}
    return data.StructLayout({"both": 1, "ordered": 1, "hidden": 1, **shapes})


def joined_layout(plan, carried=()):
    """Return what leaves the operator: a pair, or a star that closes the pairs before it.

    ``side``
        The side of the arrival that was compared.
    ``star``, ``final``, ``sync``
        A star that is ``final`` closes an arrival (or group of them), whose id it carries; one
        with ``sync`` answers a star that went in. Any other closes a part of an arrival's pairs.
    """
    result = dict(result_layout(plan, carried))
    shapes = {name: field.shape for name, field in result.items() if name != "star"}
    return data.StructLayout({"star": 1, "sync": 1, "final": 1, "side": 1, **shapes})


def record_layout():
    """Return how the combiner goes on: with the stream of one side until a final star, or ``both``.

    With ``both`` the streams are merged until either shows a star.
    """
    return data.StructLayout({"both": 1, "side": 1})
