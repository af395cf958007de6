"""What the manager writes down: batches that are under way, and who is at which place."""

from dataclasses import dataclass, field

import numpy as np

from eddyline.engine.manager.link import Message
from eddyline.engine.manager.output import Piece
from eddyline.engine.part import Held

__all__ = ["Batch", "Place", "Status"]


@dataclass
class Status:
    """What a worker said of itself with its last results.

    ``comparisons`` are all that were done at its place.
    """

    comparisons: int = 0
    held: tuple[Held, Held] = (Held(0, 0, 0, False), Held(0, 0, 0, False))


@dataclass
class Batch:
    """A batch that workers have: what it consists of, who has not answered, and what came in.

    ``live`` are the oldest tuples of R and S that an arrival after this batch may see.
    """

    order: Message
    arrivals: int
    starts: np.ndarray
    stops: np.ndarray
    live: tuple[int, int]
    awaited: set[int] = field(default_factory=set)
    pairs: int = 0
    pieces: dict[int, list[Piece]] = field(default_factory=dict)


@dataclass
class Place:
    """What the manager knows of the worker at a place, whichever process that is.

    ``newest`` are sequence numbers of the newest tuples that were given to it, -1 if there are
    none; ``known`` are segments and bases of what it reads; ``loading``, that it may still be
    reading what its predecessor had stored; ``before`` are comparisons of its predecessors;
    ``attempts`` those that ended over the same batch; ``idle`` those that ended, one after the
    other, with nothing to do.
    """

    newest: list[int] = field(default_factory=lambda: [-1, -1])
    known: dict[str, tuple[int, int]] = field(default_factory=dict)
    loading: bool = False
    before: int = 0
    attempts: int = 0
    idle: int = 0
    status: Status = field(default_factory=Status)

    def holds(self, live: tuple[int, int]) -> list[bool]:
        """Say of which sides it has tuples at least as new as these."""
        return [newest >= oldest for newest, oldest in zip(self.newest, live, strict=True)]
