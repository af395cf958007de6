"""The indexed join: chained subwindows with an index each, in C++ (``native/``)."""

import ctypes
import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path as File

import numpy as np

from eddyline.build.native import compiled
from eddyline.device import Tuples
from eddyline.engine.access import NO_BOUND, Path, comparisons, has_flags
from eddyline.engine.part import Held, Part, Stores
from eddyline.errors import DeviceError
from eddyline.plan import All, Any_, Compare, Flag, Plan, Predicate

__all__ = ["ENGINES", "IndexedJoin", "declared", "library"]

# As `Kind` in native/structure.hpp.
ENGINES = {"bisort": 0, "rap": 1, "wib": 2, "hash": 3, "grid": 4}
# Structures of sorted batches, of which a window may have several at a time.
SUBWINDOWS = {"bisort", "rap", "wib"}
WINDOWS = {"rows": 0, "time": 1, "unbounded": 2}
ORDERS = {"none": 0, "outer": 2, "inner": 2}
OPERATORS = {"eq": 0, "ne": 1, "le": 2, "ge": 3}
COMPARE, FLAG, ALL, ANY, NOT = range(5)
SIGMA = 1.25  # spare room in partitions (PanJoin, section III-B2)
BUFFER = 256  # tuples of BI-Sort's insertion buffer
PARTITION = 64  # tuples of a partition of the others
WINDOW_MOST = 2**64 - 1
MESSAGE = 256
# Unevenness of a RaP-Table's partitions and drift of the keys are in millionths.
SIDE_REPORT = (
    "subwindows",
    "subwindow_tuples",
    "sealed",
    "expired",
    "unevenness",
    "drift",
    "aside",
)
SMALL = 1024  # results that are copied out of buffers that stay


@functools.cache
def library(progress: Callable[[str], None] | None = None) -> ctypes.CDLL:
    """Return the compiled engine; the first use on a machine compiles it."""
    path = compiled(File(__file__).parent / "native" / "join.cpp", name="engine", progress=progress)
    return declared(ctypes.CDLL(str(path)))


def declared(engine: ctypes.CDLL) -> ctypes.CDLL:
    """Say what the functions of a compiled engine take and give."""
    pointer, u64 = ctypes.c_void_p, ctypes.c_uint64
    count, place = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(pointer)
    failure = [ctypes.c_char_p, u64]
    for name, result, arguments in (
        ("open", pointer, [pointer, u64, u64, *failure]),
        ("close", None, [pointer]),
        ("push", ctypes.c_int, [pointer, pointer, u64, *[pointer] * 5, *failure]),
        ("keys", ctypes.c_int, [pointer, pointer, u64, pointer, u64, place, count, *failure]),
        ("load", ctypes.c_int, [pointer, pointer, u64, *[pointer] * 4, *failure]),
        ("pass", ctypes.c_int, [pointer, u64, u64, *failure]),
        ("expire", None, [pointer, u64, u64]),
        ("accept_late", ctypes.c_int, [pointer]),
        ("watermark", None, [pointer, ctypes.c_int64, ctypes.c_int64]),
        ("held", None, [pointer, pointer]),
        ("next", ctypes.c_int, [pointer, count, count, *failure]),
        ("take", ctypes.c_int, [pointer, *[pointer] * 6, u64, count, *failure]),
        ("ranges", ctypes.c_int, [pointer, count, count, *failure]),
        ("closed", u64, [pointer]),
        ("gave_way", ctypes.c_int, [pointer]),
        ("flush", None, [pointer]),
        ("report", None, [pointer, pointer]),
        ("kind", None, [pointer, u64, ctypes.c_int]),
        ("subwindows", None, [pointer, u64]),
    ):
        function = getattr(engine, f"eddyline_join_{name}")
        function.restype = result
        function.argtypes = arguments
    return engine


class _Buffers:
    """Where a part of the results is written."""

    def __init__(self, pairs: int, arrivals: int, *, ordered: bool):
        sizes = [pairs, arrivals, arrivals, arrivals] if ordered else []
        self.arrays: list[np.ndarray] = [np.empty(pairs, np.uint32) for _ in range(2)]
        self.arrays += [np.empty(size, np.int64) for size in sizes]
        self.missing = [] if ordered else [np.empty(0, np.int64)] * 4
        self.addresses = [array.ctypes.data for array in self.arrays] + [None] * len(self.missing)

    def part(self, pairs: int, arrivals: int, closed: int, *, copied: bool) -> Part:
        sizes = [pairs] * 3 + [arrivals] * 3
        arrays = [array[:size] for array, size in zip(self.arrays, sizes, strict=False)]
        r_id, s_id, *more = [a.copy() for a in arrays] if copied else arrays
        at, ends, starts, stops = more or self.missing
        return Part(r_id, s_id, at, ends, starts, stops, closed)


class IndexedJoin:
    """A windowed join whose windows are indexed.

    Parameters
    ----------
    plan : Plan
        What to join.
    paths : list of Path
        How it is looked up; see :func:`eddyline.engine.access.access_paths`.
    engine : str
        Structure of new subwindows (``bisort``, ``rap`` or ``wib``), or what needs none:
        ``hash`` or ``grid``.
    threads : int
        Cores to use.
    subwindows : int
        Subwindows per window, or per share of it; 0 to choose by the size of window and batches.
    shares : int
        Joins that each store a share of the tuples, this one included; 0 if this one stores all.
        Those with a share look up batch by batch, also equalities and pairs of bands.
    """

    def __init__(
        self,
        plan: Plan,
        paths: list[Path],
        *,
        engine: str = "bisort",
        threads: int = 1,
        subwindows: int = 0,
        shares: int = 0,
    ):
        self._library = library()
        self._error = ctypes.create_string_buffer(MESSAGE)
        self._failure = (self._error, MESSAGE)
        self.paths = paths
        self._ordered = plan.order.kind != "none"
        if engine == "grid" and shares:
            engine = "bisort"
        self._engine = engine
        if engine == "grid":  # cells hold bounds, and these decide
            paths = [replace(one, residual=one.undecided) for one in paths]
        spec = np.array(list(_description(plan, paths, engine, subwindows, shares)), np.int64)
        self._handle = self._library.eddyline_join_open(
            spec.ctypes.data, len(spec), threads, *self._failure
        )
        if not self._handle:
            raise DeviceError(f"the engine refused the plan: {self._error.value.decode()}")
        self._most, self._arrivals, self._pairs = (ctypes.c_uint64() for _ in range(3))
        # Looking up the address of an array takes longer than joining a tuple.
        self._small = _Buffers(SMALL, SMALL, ordered=self._ordered)

    def close(self) -> None:
        if self._handle:
            self._library.eddyline_join_close(self._handle)
            self._handle = None

    def push(
        self, tuples: Tuples, stores: Stores | None = None, keys: np.ndarray | None = None
    ) -> None:
        written = None if keys is None else keys.ctypes.data
        self._enter(self._library.eddyline_join_push, tuples, stores, written)

    def keys(self, tuples: Tuples) -> np.ndarray:
        """Make keys for ``push`` of other engines that have a share of the same plan, as this has.

        They are bytes, and valid until the next call.
        """
        r, s = (np.ascontiguousarray(one) for one in (tuples.r, tuples.s))
        place, size = ctypes.c_void_p(), ctypes.c_uint64()
        self._check(
            self._library.eddyline_join_keys(
                self._handle, r.ctypes.data, len(r), s.ctypes.data, len(s),
                place, size, *self._failure,
            )
        )  # fmt: skip
        return np.ctypeslib.as_array(
            ctypes.cast(place, ctypes.POINTER(ctypes.c_uint8)), (size.value,)
        )

    def load(self, tuples: Tuples, stores: Stores) -> None:
        self._enter(self._library.eddyline_join_load, tuples, stores)

    def skip(self, r: int, s: int) -> None:
        self._check(self._library.eddyline_join_pass(self._handle, r, s, *self._failure))

    def expire(self, r: int, s: int) -> None:
        self._library.eddyline_join_expire(self._handle, r, s)

    def accept_late(self) -> bool:
        """Let tuples come in any order of time, from the first on; return whether that can be.

        Pairs are then those of the same tuples in order: the later of two, or S if their times are
        equal, meets the earlier if that is in its window. Windows have to be of time or unbounded,
        and pairs must not be asked for in an order. What a window no longer holds is forgotten as
        ``watermark`` rises.
        """
        return bool(self._library.eddyline_join_accept_late(self._handle))

    def watermark(self, r: int, s: int) -> None:
        """Say that no tuple of R or S before these times will follow what has been pushed."""
        self._library.eddyline_join_watermark(self._handle, r, s)

    def held(self) -> tuple[Held, Held]:
        values = np.zeros(8, np.uint64)
        self._library.eddyline_join_held(self._handle, values.ctypes.data)
        r, s = (
            Held(tuples, oldest, end, bool(full))
            for tuples, oldest, end, full in values.reshape(2, 4).tolist()
        )
        return r, s

    def pull(self) -> Part | None:
        """Return the next part of the results, or None if all of them have been handed over."""
        most, arrivals, pairs = self._most, self._arrivals, self._pairs
        ready = self._library.eddyline_join_next(self._handle, most, arrivals, *self._failure)
        if ready <= 0:
            self._check(ready)
            return None
        out = self._small
        if max(most.value, arrivals.value) > SMALL:
            out = _Buffers(most.value, arrivals.value, ordered=self._ordered)
        self._check(
            self._library.eddyline_join_take(
                self._handle, *out.addresses, most, pairs, *self._failure
            )
        )
        closed = self._library.eddyline_join_closed(self._handle)
        return out.part(pairs.value, arrivals.value, closed, copied=out is self._small)

    def ranges(self) -> tuple[int, int]:
        """Look up what was pushed and return its pairs and their records, unexpanded.

        Pairs are counted exactly where keys decide all, but for those too old and the batch's own.
        """
        self._check(
            self._library.eddyline_join_ranges(
                self._handle, self._most, self._pairs, *self._failure
            )
        )
        return self._most.value, self._pairs.value

    @property
    def gave_way(self) -> bool:
        """Whether cells have become sorted subwindows, as there were many pairs."""
        return bool(self._library.eddyline_join_gave_way(self._handle))

    def flush(self) -> None:
        """Empty the windows. What has not been pulled is gone."""
        self._library.eddyline_join_flush(self._handle)

    def use(self, engine: str) -> None:
        """Let new subwindows have this structure, where it serves what is looked up in them.

        Those that are there stay as they are. Only structures of subwindows can follow each other.
        """
        if {engine, self._engine} - SUBWINDOWS:
            raise ValueError(f"engine {self._engine!r} cannot become {engine!r}")
        for number, path in enumerate(self.paths):
            kind = ENGINES[path.structure(engine)]
            self._library.eddyline_join_kind(self._handle, number, kind)

    def report(self) -> dict[str, int]:
        values = np.zeros(4 + 2 * len(SIDE_REPORT) * len(self.paths), np.uint64)
        self._library.eddyline_join_report(self._handle, values.ctypes.data)
        names = ["tuples", "results", "comparisons", "bytes"]
        sides = [
            f"{name}_{side}{path or ''}"
            for path in range(len(self.paths))
            for side in "rs"
            for name in SIDE_REPORT
        ]
        return dict(zip(names + sides, map(int, values), strict=True))

    def _enter(
        self, function: Callable[..., int], tuples: Tuples, stores: Stores | None, *more: int | None
    ) -> None:
        arrays = [np.ascontiguousarray(one) for one in (tuples.r, tuples.s)]
        places = [one.ctypes.data if len(one) else None for one in arrays]
        some = [np.ascontiguousarray(one) for one in stores or ()]
        places += [one.ctypes.data for one in some] + [None] * (2 - len(some))
        sides = np.ascontiguousarray(tuples.sides, np.uint8)
        self._check(
            function(self._handle, sides.ctypes.data, len(sides), *places, *more, *self._failure)
        )

    def _check(self, code: int) -> int:
        if code == -2:
            raise MemoryError("the join's windows or results do not fit")
        if code < 0:
            raise DeviceError(f"the engine failed: {self._error.value.decode()}")
        return code


def _description(
    plan: Plan, paths: list[Path], engine: str, subwindows: int, shares: int
) -> Iterable[int]:
    """Yield the numbers that ``Join`` in native/join.cpp reads."""
    tests = [test for path in paths for test in _tests(path)]
    kept: dict[str, set[int]] = {"r": set(), "s": set()}
    for test in tests:
        for compare in comparisons(test):
            kept["r"].add(compare.r)
            kept["s"].add(compare.s)
    for path in paths if engine != "grid" else []:
        for side in "rs":  # what strips are made of anew
            words = {word for one in path.dimensions[:-1] for word in one.words(side)}
            kept[side] |= words - {NO_BOUND}
    valid = any(has_flags(test) for test in tests) or any(
        plan.layout(side).words[word].optional for side in "rs" for word in kept[side]
    )
    yield ORDERS[plan.order.kind]
    yield subwindows
    yield shares
    for side in "rs":
        layout, window = plan.layout(side), plan.window(side)
        dtype = np.dtype(layout.fields)
        yield dtype.itemsize
        yield WINDOWS[window.kind]
        yield _signed(min(window.size, WINDOW_MOST))
        yield any(plan.window(one).kind == "time" for one in "rs")
        yield valid
        yield len(layout.words)
        for number, word in enumerate(layout.words):
            yield dtype.fields[word.name][1]  # type: ignore[index]
            yield word.storage // 8
            yield number in kept[side]
    yield len(paths)
    for path in paths:
        yield from _path(plan, path, engine)


def _path(plan: Plan, path: Path, engine: str) -> Iterable[int]:
    narrow = all(
        plan.layout(side).words[word].width <= 32
        for one in path.dimensions
        for side in "rs"
        for word in one.words(side)
        if word >= 0
    )
    yield from (ENGINES[path.structure(engine)], path.wide, narrow, path.hashed, path.unequal)
    yield from (path.group_bits, path.range_bits, path.truncated)
    yield from (round(SIGMA * 1000), BUFFER, PARTITION)
    yield from (_signed(path.needed[side]) for side in "rs")
    yield len(path.equal)
    for one in path.equal:
        yield from (one.r, one.s, plan.r.words[one.r].width)
    yield len(path.dimensions)
    for dimension in path.dimensions:
        yield from (*dimension.words("r"), *dimension.words("s"))
    tests = _tests(path)
    lines = [line for test in path.residual for line in _lines(plan, test)]
    for test in path.excluded:
        lines += [*_lines(plan, test), (NOT, 0, 0, 0)]
    if tests:
        lines.append((ALL, len(tests), 0, 0))
    yield len(lines)
    for line in lines:
        yield from line


def _tests(path: Path) -> list[Predicate]:
    return [*path.residual, *path.excluded]


def _lines(plan: Plan, node: Predicate) -> Iterable[tuple[int, int, int, int]]:
    match node:
        case Compare(r, op, s):
            yield COMPARE, r, OPERATORS[op], s
        case Flag(side, index):
            yield FLAG, int(side == "s"), plan.layout(side).flag_bit(index), 0
        case All(parts) | Any_(parts):
            for part in parts:
                yield from _lines(plan, part)
            yield ALL if isinstance(node, All) else ANY, len(parts), 0, 0


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
