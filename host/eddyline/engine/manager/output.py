"""What workers have found, and the output gate: it in one order (ScaleJoin's SG_out)."""

from dataclasses import dataclass

import numpy as np

from eddyline.engine.manager.shared import received
from eddyline.engine.part import Part

__all__ = ["Piece", "in_order", "part_of"]

BYTES = np.dtype(np.uint8)


@dataclass(frozen=True)
class Piece:
    """Some of a worker's results of a batch, read where the worker has written them.

    ``at`` and ``ends`` as in :class:`eddyline.engine.part.Part`; both are there when an order was
    asked for.
    """

    r_id: np.ndarray
    s_id: np.ndarray
    at: np.ndarray
    ends: np.ndarray

    @classmethod
    def read(cls, fd: int, pairs: int, ends: int) -> "Piece":
        """Take what a worker has written; the descriptor is closed."""
        memory = received(fd, BYTES)
        ordered = pairs if ends else 0
        cuts = np.cumsum([8 * ordered, 8 * ends, 4 * pairs])
        at, counts, r_id, s_id = np.split(memory, cuts)
        return cls(
            r_id.view(np.uint32), s_id.view(np.uint32), at.view(np.int64), counts.view(np.int64)
        )


def part_of(piece: Piece | None, closed: int) -> Part:
    """Return what a worker has found without an order, or nothing, as an engine's result."""
    ids, none = np.empty(0, np.uint32), np.empty(0, np.int64)
    r_id, s_id = (piece.r_id, piece.s_id) if piece else (ids, ids)
    return Part(r_id, s_id, none, none, none, none, closed)


def in_order(workers: list[list[Piece]], arrivals: int) -> Piece:
    """Merge by arrival, and by the partner's sequence number within an arrival.

    The pieces of each worker are in that order, and together cover all arrivals of the batch; a
    worker that had nothing to do has none.
    """
    pieces = [piece for some in workers for piece in some]
    if not pieces:
        nothing = np.empty(0, np.uint32)
        return Piece(nothing, nothing, np.empty(0, np.int64), np.zeros(arrivals, np.int64))
    counts = [
        np.concatenate([np.diff(piece.ends, prepend=0) for piece in some])
        for some in workers
        if some
    ]
    r_id, s_id, at = (
        np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("r_id", "s_id", "at")
    )
    ends = np.cumsum(np.sum(counts, axis=0))
    if len(counts) == 1:
        return Piece(r_id, s_id, at, ends)
    arrival = np.concatenate([np.repeat(np.arange(arrivals), some) for some in counts])
    # One number to sort by. A worker's are sorted already, and this sort merges such runs.
    order = np.argsort(arrival * (at.max(initial=0) + 1) + at, kind="stable")
    return Piece(r_id[order], s_id[order], at[order], ends)
