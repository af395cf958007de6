"""What the models of both chains share: windows, the record of comparisons, overflow."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from eddyline.errors import DeviceError
from eddyline.plan import Window
from eddyline.reference import Arrival

__all__ = ["Comparison", "Model"]


class Comparison(NamedTuple):
    """A probe met a stored tuple on a core. Ids as in the input."""

    core: int
    side: str
    probe: int
    partner: int


class Model:
    """A chain of cores that keeps a record of who met whom, and where.

    A time window is held in a window of ``capacity`` tuples and judged pair by pair: r and s match
    only if ``-size_s <= s.time - r.time <= size_r``. A tuple that must leave while it is still
    young is an error.

    Parameters
    ----------
    cores : int
        Length of the chain, at least 1.
    matches : function of an R row and an S row
        The predicate.
    window_r, window_s : Window
        Any kind.
    capacity : pair of int, optional
        Tuples of R and of S that the chain can hold; for windows that are not counted in rows.

    Members
    -------
    comparisons : list of Comparison
        Everything that met, in the order in which it happened.
    pairs : list of (int, int)
        Ids of the pairs that match.
    """

    def __init__(
        self,
        cores: int,
        matches: Callable[[Any, Any], bool],
        window_r: Window,
        window_s: Window,
        capacity: tuple[int | None, int | None] = (None, None),
    ):
        if cores < 1:
            raise ValueError(f"a chain has at least 1 core, not {cores}")
        self.cores = cores
        self.matches = matches
        self.windows = (window_r, window_s)
        self.sizes = [
            window.size if window.kind == "rows" else most
            for window, most in zip(self.windows, capacity, strict=True)
        ]
        for size in self.sizes:
            if size is not None and size < 1:
                raise ValueError(f"a window has at least 1 tuple, not {size}")
        self.comparisons: list[Comparison] = []
        self.pairs: list[tuple[int, int]] = []
        self._recent: tuple[deque[int], deque[int]] = (deque(), deque())

    def meet(self, core: int, probe: Arrival, partners: Sequence[Arrival]) -> None:
        """Compare a tuple that enters a core with those of the other side that it finds there."""
        for partner in partners:
            self.comparisons.append(Comparison(core, probe.side, probe.id, partner.id))
            r, s = (probe, partner) if probe.side == "r" else (partner, probe)
            if self._young(r, s) and self.matches(r.row, s.row):
                self.pairs.append((r.id, s.id))

    def leaves(self, new: Arrival) -> bool:
        """Note an arrival; say whether it makes the oldest tuple of its side leave.

        Raises
        ------
        DeviceError
            If that tuple is still inside its window.
        """
        side = "rs".index(new.side)
        size, window = self.sizes[side], self.windows[side]
        recent = self._recent[side]
        recent.append(new.time)
        if size is None or len(recent) <= size:
            return False
        age = new.time - recent.popleft()
        if window.kind == "unbounded" or (window.kind == "time" and age <= window.size):
            raise DeviceError(
                f"overflow: window {new.side} holds {size} tuples and the oldest is still inside "
                f"(age {age}); use a larger capacity"
            )
        return True

    def forget(self) -> None:
        """Empty the windows."""
        for recent in self._recent:
            recent.clear()

    def _young(self, r: Arrival, s: Arrival) -> bool:
        window_r, window_s = self.windows
        return (window_r.kind != "time" or s.time - r.time <= window_r.size) and (
            window_s.kind != "time" or r.time - s.time <= window_s.size
        )
