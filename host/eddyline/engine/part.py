"""What engines hand over."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from eddyline.device import Tuples

__all__ = ["Engine", "Held", "Part", "ShareEngine", "Stores"]

# Whether to store each tuple of R, and of S: ones and zeros, in bytes.
Stores = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Part:
    """Some results: pairs of ids and, in order of arrival, what stars need to know.

    ``at`` are sequence numbers of the earlier tuples, ``ends`` the pairs up to the end of each of
    these arrivals, ``starts`` and ``stops`` their partners; an engine that was asked for no order
    may leave these empty. ``closed`` counts the arrivals, from the first on, whose pairs have all
    been handed over.
    """

    r_id: np.ndarray
    s_id: np.ndarray
    at: np.ndarray
    ends: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    closed: int


class Engine(Protocol):
    """Joins what is pushed, for one plan."""

    def push(self, tuples: Tuples) -> None:
        """Take tuples, any number of them but none."""

    def pull(self) -> Part | None:
        """Return a bounded part of the results, or None if all have been handed over."""

    def flush(self) -> None:
        """Empty the windows. What has not been pulled is gone."""

    def report(self) -> dict[str, int]:
        """Return what was counted, among it ``tuples``, ``results`` and ``comparisons``."""

    def close(self) -> None: ...


class Held(NamedTuple):
    """What an engine holds of one side.

    ``tuples`` it can find, the sequence number of the ``oldest`` and the one behind the newest
    (``end``), both as whole subwindows have them, and whether the newest subwindow is ``full``.
    """

    tuples: int
    oldest: int
    end: int
    full: bool


class ShareEngine(Engine, Protocol):
    """Joins every arrival with a share of the tuples: those that it was told to store.

    Sequence numbers, windows and expiry are those of the whole stream.
    """

    def push(
        self, tuples: Tuples, stores: Stores | None = None, keys: np.ndarray | None = None
    ) -> None:
        """Take tuples, and store some of them: all, by default.

        ``keys`` are what another engine has made of them for this one, if that can use such.
        """

    def load(self, tuples: Tuples, stores: Stores) -> None:
        """Store tuples whose results are known already. Only between batches."""

    def skip(self, r: int, s: int) -> None:
        """Let tuples pass that concern nothing that is stored here. Only between batches."""

    def expire(self, r: int, s: int) -> None:
        """Forget what is below these sequence numbers of R and S."""

    def held(self) -> tuple[Held, Held]:
        """Return what is held of R and of S."""
