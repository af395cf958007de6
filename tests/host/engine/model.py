"""What a structure must find, by comparing every pair; and random lives of a structure."""

from dataclasses import dataclass, field

import numpy as np

from eddyline.engine.structure import Structure

LAST = 2**32 - 1
ENGINES = ("bisort", "rap", "wib", "hash")
RANGED = ENGINES[:3]
# Neighbours, both ends and the middle: where bounds touch and sums overflow.
CORNERS = np.array([0, 1, 2, 3, 1000, 2**31 - 1, 2**31, LAST - 1, LAST], np.uint32)


@dataclass
class Checked:
    """A structure beside the plain arrays of what was inserted."""

    structure: Structure
    low: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint32))
    high: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint32))
    first: int = 0  # of the tuples that have not expired
    origin: int = 0  # ref of the first tuple of all

    def insert(self, low: np.ndarray, high: np.ndarray | None = None) -> None:
        refs = np.arange(len(self.low), len(self.low) + len(low)) + self.origin
        self.structure.insert(low, (refs % 2**32).astype(np.uint32), high)
        self.low = np.concatenate([self.low, low])
        self.high = np.concatenate([self.high, low if high is None else high])
        assert self.structure.report()["tuples"] == len(self.low) - self.first

    def expire(self, count: int) -> None:
        self.first += count
        self.structure.expire(self.origin + self.first)

    def check(self, low: np.ndarray, high: np.ndarray | None = None) -> None:
        """Look up intervals: the pairs are those that overlap, each once."""
        found = self.structure.probe(low, high)
        places, refs = self.structure.pairs()
        high = low if high is None else high
        stored = slice(self.first, None)
        overlap = (self.low[stored] <= high[:, None]) & (self.high[stored] >= low[:, None])
        expected = np.argwhere(overlap)
        got = np.stack([places, (refs.astype(np.int64) - self.origin) % 2**32 - self.first], axis=1)
        got = got[np.lexsort((got[:, 1], got[:, 0]))]
        assert np.array_equal(got, expected)
        assert found.pairs == len(expected)
        assert found.records <= found.pairs


def live(engine: str, seed: int) -> None:
    """Let a random structure live, and check it on the way."""
    random = np.random.default_rng(seed)
    intervals = engine != "hash" and random.random() < 0.5
    monotone = random.random() < 0.5
    one = Checked(
        Structure(
            engine,
            capacity=int(random.choice([1, 10, 100, 1000])),
            partitions=int(random.choice([1, 2, 7, 64])),
            buffer=int(random.choice([0, 1, 5, 64])),
            intervals=intervals,
            threads=int(random.choice([1, 1, 2, 3])),
        )
    )
    pool = _pool(random)

    def bounds(count: int, *, points: bool) -> tuple[np.ndarray, np.ndarray | None]:
        low = random.choice(pool, count)
        if points:
            return low, None
        if monotone:
            return low, np.minimum(low.astype(np.int64) + 2, LAST).astype(np.uint32)
        return low, np.maximum(low, random.choice(pool, count))

    for _ in range(random.integers(1, 12)):
        one.insert(*bounds(_size(random), points=not intervals))
        if random.random() < 0.6:
            one.check(*bounds(_size(random), points=engine == "hash" or random.random() < 0.3))
    one.check(CORNERS)
    one.structure.seal()
    one.check(*bounds(30, points=engine == "hash"))
    if engine != "hash":
        one.check(CORNERS, np.full(len(CORNERS), LAST, np.uint32))
    if engine == "wib":
        assert one.structure.report()["ordered"]


def _pool(random: np.random.Generator) -> np.ndarray:
    """Return keys to draw from: corners, many different, or one and the same."""
    kind = random.integers(4)
    if kind == 0:
        return CORNERS
    if kind == 1:
        return random.choice(CORNERS, 1)
    if kind == 2:
        return random.integers(0, 50, 50).astype(np.uint32)
    return random.integers(0, 2**32, 1000, dtype=np.uint32)


def _size(random: np.random.Generator) -> int:
    """Return the size of a batch; 256 is where another way of sorting begins."""
    return int(random.choice([0, 1, 2, 4, 5, 6, 17, 63, 64, 65, 300]))
