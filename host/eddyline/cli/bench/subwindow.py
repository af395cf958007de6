"""One subwindow made to measure: how many tuples per second of CPU it takes in and looks up."""

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from eddyline.engine.structure import Structure
from eddyline.streams import uniform

__all__ = ["BUFFER", "Point", "Rate", "Subwindow"]

KEYS = 1 << 32
BUFFER = 1024  # of BI-Sort, as in the paper
PIECES = 16  # in which a subwindow is filled, in random order, so that a tree grows as it would
WARM = 64  # the part of a subwindow that a batch may have to be inserted before, too
ENOUGH = 0.02  # seconds of CPU for a run
SAMPLE = 1 << 16  # tuples of a run, or a batch if that is more
MOST_PAIRS = 1 << 22  # of a batch; a larger one is cut, or results would not fit


@dataclass(frozen=True)
class Point:
    """What is measured: an operation on a structure of some size.

    ``partitions`` are those of a RaP-Table or the leaves of a WiB+-Tree. ``selectivity`` is the
    mean number of tuples that a lookup finds, ``operation`` is insert, equal or band. BI-Sort's
    insertion buffer has ``buffer`` tuples; lookups meet it empty, or full if ``buffered``.
    """

    engine: str
    operation: str
    subwindow: int
    batch: int
    partitions: int
    selectivity: int = 1
    buffer: int = BUFFER
    buffered: bool = False


@dataclass(frozen=True)
class Rate:
    """Million tuples per second of CPU: median, lowest and highest of several runs.

    ``found`` is the mean number of partners that lookups had, beside the selectivity aimed at.
    """

    point: Point
    median: float
    low: float
    high: float
    found: float

    @property
    def spread(self) -> float:
        return (self.high - self.low) / self.median

    def row(self) -> dict[str, Any]:
        numbers = asdict(self)
        return numbers.pop("point") | numbers


class Subwindow:
    """Measures points; a structure that was filled serves for all lookups that it can.

    One thread does all the work, and only its CPU time is counted, so a busy machine matters
    little. Sorting the batch is included, calling from Python is not: batches follow each other in
    native code.
    """

    def __init__(self, runs: int):
        self._runs = runs
        self._key: Point | None = None  # what the structure is filled for
        self._filled: Structure | None = None
        self._found = 0.0

    def measure(self, point: Point) -> Rate:
        run = self._insert if point.operation == "insert" else self._probe
        self._found = 0.0
        rates = sorted(run(point, number) / 1e6 for number in range(self._runs))
        return Rate(point, statistics.median(rates), rates[0], rates[-1], self._found)

    def _insert(self, point: Point, number: int) -> float:
        """Insert about half-way through a subwindow's life: its mean, if costs rise evenly."""
        before = (point.subwindow - point.batch) // 2
        structure = _filled(point, before)
        least = max(point.batch, point.buffer)
        if least <= point.subwindow // WARM:
            # From now on there is room to merge in, and a full buffer is merged for every one that
            # is filled.
            structure.insert(*_tuples("warm", 0, 3 * least, point), batch=point.batch)
        count = max(point.batch, min(point.subwindow - before, SAMPLE))
        keys, refs = _tuples("insert", number, count, point)

        def insert(begin: int, end: int) -> None:
            structure.insert(keys[begin:end], refs[begin:end], batch=point.batch)

        return _rate(insert, count, least)

    def _probe(self, point: Point, number: int) -> float:
        key = replace(point, batch=0, selectivity=point.operation == "equal" and point.selectivity)
        if key != self._key or self._filled is None:
            self._filled = None  # its memory first
            self._filled = _filled(point, point.subwindow)
            self._key = key
            if point.buffered:
                self._filled.insert(*_tuples("buffer", 0, point.buffer, point), batch=1)
            else:
                self._filled.seal()
        structure = self._filled
        batch = point.batch
        if point.engine != "bisort":
            batch = min(batch, MOST_PAIRS // point.selectivity)
        count = max(batch, min(SAMPLE, MOST_PAIRS // point.selectivity))
        low, _ = _tuples("probe", number, count, point)
        high = low
        if point.operation == "band":
            half = point.selectivity * KEYS // (2 * point.subwindow)
            # Bands that would reach beyond the keys are moved inwards, so that all are as wide.
            low = np.minimum(low, KEYS - 1 - 2 * half).astype(np.uint32)
            high = low + np.uint32(2 * half)

        def probe(begin: int, end: int) -> int:
            return structure.probe(low[begin:end], high[begin:end], batch=batch).pairs

        self._found = probe(0, batch) / batch  # from now on there is room for the results
        return _rate(probe, count, batch)


def _filled(point: Point, tuples: int) -> Structure:
    structure = Structure(
        point.engine,
        capacity=point.subwindow,
        partitions=point.partitions,
        buffer=point.buffer,
    )
    keys, refs = _tuples("fill", 0, tuples, point)
    structure.insert(keys, refs, batch=max(1, -(-tuples // PIECES), point.buffer))
    return structure


def _tuples(name: str, number: int, count: int, point: Point) -> tuple[np.ndarray, np.ndarray]:
    """Draw keys evenly; for equality, so few different ones that each occurs often enough."""
    different = KEYS
    if point.operation == "equal":
        different = max(1, point.subwindow // point.selectivity)
    return _drawn(name, number, count, different), np.arange(count, dtype=np.uint32)


@functools.lru_cache(maxsize=4)
def _drawn(name: str, number: int, count: int, different: int) -> np.ndarray:
    drawn = uniform(number, name, np.arange(count))
    if different < KEYS:
        drawn = uniform(0, "key", np.floor(drawn * different).astype(np.int64))
    return np.floor(drawn * KEYS).astype(np.uint32)


def _rate(work: Callable[[int, int], object], count: int, least: int) -> float:
    """Work through tuples until enough time has passed; return how many per second of CPU."""
    piece = least * max(1, 1024 // least)
    done, spent = 0, 0.0
    while done < count and spent < ENOUGH:
        end = min(done + piece, count)
        began = time.thread_time()
        work(done, end)
        spent += time.thread_time() - began
        done = end
    return done / max(spent, 1e-9)
