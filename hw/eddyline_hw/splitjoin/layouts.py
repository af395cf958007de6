"""What travels through a SplitJoin operator.

Everything comes in two parts: a few bits that steer, and what follows them.
"""

from amaranth.lib import data

from eddyline_hw.layouts import part_layout, result_layout

__all__ = [
    "found_layout",
    "item_layout",
    "joined_layout",
    "marks_layout",
    "packet_layout",
    "pair_layout",
    "record_layout",
    "request_layout",
    "row_layout",
]


def request_layout():
    """Return what steers of a message: see :func:`eddyline_hw.layouts.message_layout`."""
    return data.StructLayout({"star": 1, "flush": 1, "side": 1})


def packet_layout(log_bits=4):
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
        }
    )


def marks_layout(lanes):
    """Return the stars among the results of a row.

    ``marks`` are lanes behind which a star comes; ``closes`` is the star behind all of them.
    """
    return data.StructLayout(
        {"marks": lanes, "closes": 1, "both": 1, "ordered": 1, "sync": 1, "hidden": 1}
    )


def row_layout(lanes):
    """Return what a core found in a row.

    ``items`` are the hit and the star of each lane, lowest lane first, and the star behind all of
    them; ``several`` if these are more than one.
    """
    return data.StructLayout(
        {
            "items": 2 * lanes + 1,
            "several": 1,
            "side": 1,
            "both": 1,
            "ordered": 1,
            "sync": 1,
            "hidden": 1,
        }
    )


def found_layout(plan, lanes, carried=()):
    """Return what follows a row: the probe's part of the results and those of its partners."""
    part = part_layout(plan, carried)["r"].shape
    return data.StructLayout({"probe": part, "parts": data.ArrayLayout(part, lanes)})


def item_layout():
    """Return what steers of a result: whether it is a star, and what is to be done with it.

    ``side``
        The side of the arrival that was compared.
    ``result``
        It is no star. Where a queue clears both, nobody has to ask whether something is on offer.
    ``star``, ``final``, ``sync``
        A star that is ``final`` closes an arrival (or group of them), whose id it carries; one
        with ``sync`` answers a star that went in. Any other closes a part of an arrival's pairs.
    ``both``, ``hidden``, ``ordered``
        As in a packet; ``ordered`` is a punctuation's ``inner``.
    """
    return data.StructLayout(
        dict.fromkeys(("star", "result", "sync", "final", "side", "both", "ordered", "hidden"), 1)
    )


def pair_layout(plan, carried=()):
    """Return what follows an item: the ids, and the words of R that come along."""
    result = dict(result_layout(plan, carried))
    return data.StructLayout(
        {name: field.shape for name, field in result.items() if name != "star"}
    )


def joined_layout(plan, carried=()):
    """Return what leaves the operator: a pair, or a star that closes the pairs before it.

    For ``star``, ``sync``, ``final`` and ``side`` see :func:`item_layout`.
    """
    pair = {name: field.shape for name, field in pair_layout(plan, carried)}
    return data.StructLayout({"star": 1, "sync": 1, "final": 1, "side": 1, **pair})


def record_layout():
    """Return how the combiner goes on: with the stream of ``r`` or of ``s`` until a final star.

    With ``both`` instead, the streams are merged until either shows a star. One of the three is
    set; none, while nothing is on offer.
    """
    return data.StructLayout({"both": 1, "r": 1, "s": 1})
