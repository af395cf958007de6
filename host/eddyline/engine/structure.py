"""One index on its own: insert a batch, probe a batch, seal, expire.

The join in ``native/`` keeps chains of these. Here they can be measured and compared with each
other; keys have 32 bits.
"""

import ctypes
import functools
from dataclasses import dataclass

import numpy as np

from eddyline.engine.indexed import BUFFER, ENGINES, PARTITION, SIGMA, library

__all__ = ["Balance", "Found", "Structure", "declared"]

# As `Kind` in native/structure.hpp. A plain B-tree is here for comparison only.
KINDS = {name: ENGINES[name] for name in ("bisort", "rap", "wib", "hash")} | {"btree": 5}


@dataclass(frozen=True)
class Found:
    """What a lookup found: how many pairs, and the records that stand for them."""

    pairs: int
    records: int


@dataclass(frozen=True)
class Balance:
    """How a RaP-Table's tuples are spread, and the splitters that its successor gets."""

    counts: np.ndarray
    splitters: np.ndarray

    @property
    def error(self) -> float:
        """Mean deviation from even partitions, as a share of one (PanJoin, figure 10f)."""
        even = self.counts.mean()
        return float(np.abs(self.counts - even).mean() / even) if even else 0.0


class Structure:
    """An index over intervals of keys; a value is the interval from itself to itself.

    Parameters
    ----------
    engine : str
        ``bisort``, ``rap``, ``wib``, ``hash``, or ``btree`` to compare with.
    capacity : int
        Tuples that it is made for; more are taken, too.
    partitions : int, optional
        Partitions of a RaP-Table, leaves of a WiB+-Tree.
    sigma : float
        Spare room in a RaP-Table's partitions.
    buffer : int
        Tuples of BI-Sort's insertion buffer.
    intervals : bool
        Whether tuples are stored with two bounds, not one value.
    splitters : array, optional
        Borders of a RaP-Table's partitions; even by default.
    threads : int
        Threads that share a lookup.
    """

    def __init__(
        self,
        engine: str,
        *,
        capacity: int,
        partitions: int | None = None,
        sigma: float = SIGMA,
        buffer: int = BUFFER,
        intervals: bool = False,
        splitters: np.ndarray | None = None,
        threads: int = 1,
    ):
        self._handle = None
        if engine not in KINDS:
            raise ValueError(f"no structure called {engine!r} (known: {', '.join(KINDS)})")
        if engine in ("hash", "btree") and intervals:
            raise ValueError(f"a {engine} index holds values, not intervals")
        self.engine = engine
        self.partitions = partitions or max(1, capacity // PARTITION)
        self._library = _functions()
        given = np.ascontiguousarray([] if splitters is None else splitters, np.uint64)
        self._handle = self._library.eddyline_structure_open(
            KINDS[engine], capacity, self.partitions, sigma, buffer, intervals,
            given.ctypes.data, len(given), threads,
        )  # fmt: skip
        self._pairs, self._records = ctypes.c_uint64(), ctypes.c_uint64()

    def close(self) -> None:
        if self._handle:
            self._library.eddyline_structure_close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    def insert(
        self,
        low: np.ndarray,
        refs: np.ndarray,
        high: np.ndarray | None = None,
        *,
        batch: int | None = None,
    ) -> None:
        """Store tuples, ``batch`` at a time or all at once. ``refs`` name them in what is found."""
        low, high = _bounds(low, high)
        refs = np.ascontiguousarray(refs, np.uint32)
        self._library.eddyline_structure_insert(
            self._handle, low.ctypes.data, high.ctypes.data, refs.ctypes.data, len(low),
            batch or max(1, len(low)),
        )  # fmt: skip

    def probe(
        self, low: np.ndarray, high: np.ndarray | None = None, *, batch: int | None = None
    ) -> Found:
        """Look up what overlaps each interval, ``batch`` of them at a time or all at once."""
        low, high = _bounds(low, high)
        self._library.eddyline_structure_probe(
            self._handle, low.ctypes.data, high.ctypes.data, len(low), batch or max(1, len(low)),
            self._pairs, self._records,
        )  # fmt: skip
        return Found(self._pairs.value, self._records.value)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of the last lookup, if it was one batch: places in it, and refs."""
        places, refs = (np.empty(self._pairs.value, np.uint32) for _ in range(2))
        self._library.eddyline_structure_pairs(self._handle, places.ctypes.data, refs.ctypes.data)
        return places, refs

    def seal(self) -> None:
        """Say that nothing more will be inserted."""
        self._library.eddyline_structure_seal(self._handle)

    def expire(self, ref: int) -> None:
        """Let what came before ``ref`` go, where the structure can do that."""
        self._library.eddyline_structure_expire(self._handle, ref)

    def report(self) -> dict[str, int]:
        """Return ``tuples`` and ``bytes``.

        Of a WiB+-Tree also ``leaves``, the tuples of the ``largest_leaf``, ``levels`` and whether
        it is ``ordered``; of a RaP-Table the ``entries`` in use and their ``width`` in tuples.
        """
        values = np.zeros(6, np.uint64)
        self._library.eddyline_structure_report(self._handle, values.ctypes.data)
        names = ["tuples", "bytes"]
        if self.engine == "wib":
            names += ["leaves", "largest_leaf", "levels", "ordered"]
        elif self.engine == "rap":
            names += ["entries", "width"]
        return dict(zip(names, map(int, values), strict=False))

    def balance(self) -> Balance:
        """Return how evenly a RaP-Table is filled."""
        counts = np.zeros(self.partitions, np.uint64)
        splitters = np.zeros(self.partitions, np.uint64)
        size = self._library.eddyline_structure_histogram(
            self._handle, counts.ctypes.data, splitters.ctypes.data
        )
        if not size:
            raise ValueError(f"a {self.engine} has no splitters")
        return Balance(counts.astype(np.int64), splitters[:-1])


def _bounds(low: np.ndarray, high: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    low = np.ascontiguousarray(low, np.uint32)
    return low, low if high is None else np.ascontiguousarray(high, np.uint32)


@functools.cache
def _functions() -> ctypes.CDLL:
    return declared(library())


def declared(engine: ctypes.CDLL) -> ctypes.CDLL:
    """Return a library that has native/alone.hpp, with the types of its functions."""
    pointer, u64 = ctypes.c_void_p, ctypes.c_uint64
    count = ctypes.POINTER(ctypes.c_uint64)
    sizes = [ctypes.c_int, u64, u64, ctypes.c_double, u64, ctypes.c_int, pointer, u64, u64]
    for name, result, arguments in (
        ("open", pointer, sizes),
        ("close", None, [pointer]),
        ("insert", None, [pointer, pointer, pointer, pointer, u64, u64]),
        ("probe", None, [pointer, pointer, pointer, u64, u64, count, count]),
        ("pairs", None, [pointer, pointer, pointer]),
        ("seal", None, [pointer]),
        ("expire", None, [pointer, u64]),
        ("report", None, [pointer, pointer]),
        ("histogram", u64, [pointer, pointer, pointer]),
    ):
        function = getattr(engine, f"eddyline_structure_{name}")
        function.restype = result
        function.argtypes = arguments
    return engine
