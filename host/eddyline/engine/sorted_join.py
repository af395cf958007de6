"""An indexed join that needs no compiler: sorted runs, and the predicate tested on candidates."""

from dataclasses import dataclass, field

import numpy as np

from eddyline.device import Tuples
from eddyline.engine.access import NO_BOUND, Path
from eddyline.engine.history import History
from eddyline.engine.nested_join import Batch, NestedLoopJoin
from eddyline.engine.sorted_runs import Run, Runs, expanded
from eddyline.plan import All, Any_, Compare, Flag, Plan, Predicate

__all__ = ["SortedJoin"]

OPERATORS = {"eq": np.equal, "ne": np.not_equal, "le": np.less_equal, "ge": np.greater_equal}
EVERY_BIT = (1 << 64) - 1


@dataclass
class _Lookups:
    """Tuples of one side that are looked up in a run of the other.

    ``arrivals`` are their places in the batch and rise; ``numbers`` are their sequence numbers.
    """

    path: Path
    side: int
    run: Run
    arrivals: np.ndarray
    numbers: np.ndarray
    low: np.ndarray
    begin: np.ndarray
    end: np.ndarray


@dataclass
class _Batch(Batch):
    lookups: list[_Lookups] = field(default_factory=list)


class SortedJoin(NestedLoopJoin):
    """Look every new tuple up in the sorted runs of the other side.

    Keys find candidates, on which the predicate is tested as it is. Of two bands only one is in the
    keys.

    Parameters
    ----------
    plan : Plan
        What to join.
    paths : list of Path
        How it is looked up; none by inequality.
    threads : int
        Cores to use.
    """

    def __init__(self, plan: Plan, paths: list[Path], *, threads: int = 1):
        self._paths = paths
        super().__init__(plan, threads=threads)

    def _get_ready(self) -> None:
        """Compile nothing: the kernel is compiled, or loaded, when there is something to expand."""

    def _empty_windows(self) -> None:
        super()._empty_windows()
        self._runs = [(Runs(), Runs()) for _ in self._paths]

    def _probes(self, tuples: Tuples) -> Batch:
        none, count = np.empty(0, np.uint32), len(tuples)
        numbers = np.zeros(count, np.int64)
        batch = _Batch(
            tuples.sides, none, none, none, none, numbers, np.empty(count, np.int64), numbers
        )
        for side in (0, 1):
            mine = tuples.sides == side
            batch.stops[mine] = self._histories[1 - side].count + np.cumsum(~mine)[mine]
        return batch

    def _append(self, records: tuple[np.ndarray, np.ndarray]) -> None:
        oldest = self._oldest_needed()
        super()._append(records)
        self._keys = []
        for path, runs in zip(self._paths, self._runs, strict=True):
            for side, some in enumerate(records):
                low, high, usable = self._intervals(path, side, some)
                first = self._histories[side].count - len(some)
                runs[side].expire(oldest[side])
                runs[side].insert(low, high, first + usable)
                self._keys.append((low, high, usable))

    def _add(self, batch: Batch) -> None:
        """Find the candidates of a batch that has been stored; stops leave out what came later."""
        assert isinstance(batch, _Batch)
        work = np.zeros(len(batch.sides), np.int64)
        keys = iter(self._keys)
        for path, runs in zip(self._paths, self._runs, strict=True):
            for side in (0, 1):
                low, high, usable = next(keys)
                arrivals = np.flatnonzero(batch.sides == side)
                first = self._histories[side].count - len(arrivals)
                order = np.argsort(low, kind="stable")  # one after the other reads memory in order
                begin, end = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
                for run in runs[1 - side].runs:
                    begin[order], end[order] = run.lookup(low[order], high[order])
                    some = np.flatnonzero(begin < end)
                    if len(some):
                        np.add.at(work, arrivals[usable[some]], (end - begin)[some])
                        batch.lookups.append(
                            _Lookups(
                                path, side, run, arrivals[usable[some]], first + usable[some],
                                low[some], begin[some], end[some],
                            )
                        )  # fmt: skip
        batch.work = np.cumsum(work)
        self._comparisons += int(batch.work[-1])
        self._tuples += len(batch.sides)
        self._batches.append(batch)

    def _scan(self, batch: Batch, job: slice) -> tuple[np.ndarray, ...]:
        assert isinstance(batch, _Batch)
        nothing = np.empty(0, np.int64)
        found = [(nothing, nothing, nothing, nothing)]
        for one in batch.lookups:
            some = slice(*np.searchsorted(one.arrivals, (job.start, job.stop)))
            arrivals = one.arrivals[some]
            if not len(arrivals):
                continue
            places, partners = expanded(
                one.run, one.begin[some], one.end[some], one.low[some],
                batch.starts[arrivals], batch.stops[arrivals],
            )  # fmt: skip
            own = one.numbers[some][places]
            r, s = (partners, own) if one.side else (own, partners)
            kept = self._matches(one.path, (r, s))
            found.append((arrivals[places][kept], partners[kept], r[kept], s[kept]))
        arrival, at, r, s = (np.concatenate(column) for column in zip(*found, strict=True))
        if self._plan.order.kind != "none":
            order = np.lexsort((at, arrival))
            arrival, at, r, s = arrival[order], at[order], r[order], s[order]
        counts = np.bincount(arrival - job.start, minlength=job.stop - job.start)
        r_id, s_id = (
            history.ids[numbers - history.base]
            for history, numbers in zip(self._histories, (r, s), strict=True)
        )
        return r_id, s_id, at, np.cumsum(counts)

    def _intervals(
        self, path: Path, side: int, records: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the keys of tuples that may match: bounds, and places among the records."""
        names = [word.name for word in self._plan.layout("rs"[side]).words]

        def word(number: int, default: int) -> np.ndarray:
            if number == NO_BOUND:
                return np.full(len(records), default, np.uint64)
            return records[names[number]].astype(np.uint64)

        needed = np.uint64(path.needed["rs"[side]])
        usable = (records["valid"] & needed) == needed
        low, high = np.zeros(len(records), np.uint64), np.zeros(len(records), np.uint64)
        if path.dimensions:
            bounds = path.dimensions[-1].words("rs"[side])
            low, high = word(bounds[0], 0), word(bounds[1], EVERY_BIT)
            usable &= low <= high
        if path.equal:
            group = _group(path, [word(one.s if side else one.r, 0) for one in path.equal])
            low, high = (_behind(path, group, bound) for bound in (low, high))
        places = np.flatnonzero(usable)
        return low[places], high[places], places

    def _matches(self, path: Path, numbers: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Say which pairs this path finds, and no earlier one."""
        sides = [
            (history, some - history.base)
            for history, some in zip(self._histories, numbers, strict=True)
        ]
        tests = (*path.equal, *path.bounding, *path.residual)
        kept = self._holds(All(tests), sides)
        for earlier in path.excluded:
            kept &= ~self._holds(earlier, sides)
        return kept

    def _holds(self, node: Predicate, sides: list[tuple[History, np.ndarray]]) -> np.ndarray:
        def bit(side: int, number: int) -> np.ndarray:
            history, places = sides[side]
            return (history.valid[places] >> np.uint64(number)) & np.uint64(1) > 0

        match node:
            case Compare(r, op, s):
                words = []
                for number, (history, places) in zip((r, s), sides, strict=True):
                    bank, row = history.places[number]
                    words.append((history.wide if bank else history.narrow)[row][places])
                kept = OPERATORS[op](*words)
                for side, number in enumerate((r, s)):
                    if self._plan.layout("rs"[side]).words[number].optional:
                        kept &= bit(side, number)
                return kept
            case Flag(side, index):
                return bit(int(side == "s"), self._plan.layout(side).flag_bit(index))
            case Any_(parts):
                kept = np.zeros(len(sides[0][1]), bool)
                for part in parts:
                    kept |= self._holds(part, sides)
                return kept
            case All(parts):
                kept = np.ones(len(sides[0][1]), bool)
                for part in parts:
                    kept &= self._holds(part, sides)
                return kept
        raise AssertionError(node)


def _group(path: Path, words: list[np.ndarray]) -> np.ndarray:
    """Return equal words as one; what does not fit is hashed."""
    if not path.hashed and len(words) == 1:
        return words[0]
    key = np.zeros(len(words[0]), np.uint64)
    for word in words:  # SplitMix64
        key = (key ^ word) + np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        key ^= key >> np.uint64(31)
    return key >> np.uint64(64 - path.group_bits) if path.group_bits < 64 else key


def _behind(path: Path, group: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Put a bound behind its group; a bound that is too long loses its low end."""
    if not path.range_bits:
        return group
    cut = bound >> np.uint64(path.truncated) if path.truncated < 64 else np.zeros_like(bound)
    most = np.uint64((1 << path.range_bits) - 1)
    return (group << np.uint64(path.range_bits)) | np.minimum(cut, most)
