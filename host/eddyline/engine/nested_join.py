"""The nested loop as an engine: every pair is compared, on all cores."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from eddyline.device import Tuples
from eddyline.engine.history import History
from eddyline.engine.nested_loop import program, scan, warm_up
from eddyline.engine.part import Part
from eddyline.plan import Plan

__all__ = ["Batch", "NestedLoopJoin"]

# Comparisons of one job: its output is allocated for the case that all of them match.
JOB = 1 << 22


@dataclass
class Batch:
    """Pushed arrivals that wait for their turn, as the engine reads them.

    ``work`` adds up their comparisons; ``done`` of them have been scanned.
    """

    sides: np.ndarray
    ids: np.ndarray
    narrow: np.ndarray
    wide: np.ndarray
    valid: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    work: np.ndarray
    done: int = 0


class NestedLoopJoin:
    """Compare every new tuple with the whole of the other window, for predicates of any kind.

    Parameters
    ----------
    plan : Plan
        What to join.
    threads : int
        Cores to use.
    """

    def __init__(self, plan: Plan, *, threads: int = 1):
        self._plan = plan
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._empty_windows()
        self._get_ready()
        self._batches: list[Batch] = []
        self._closed = self._tuples = self._results = self._comparisons = 0

    def _get_ready(self) -> None:
        warm_up()
        self._code = tuple(
            program(self._plan, side, history.places)
            for side, history in zip("rs", self._histories, strict=True)
        )

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def push(self, tuples: Tuples) -> None:
        batch = self._probes(tuples)
        self._append((tuples.r, tuples.s))
        now = tuples.times
        for side in (0, 1):
            mine, other = tuples.sides == side, self._histories[1 - side]
            batch.starts[mine] = other.window_starts(batch.stops[mine], now[mine])
        self._add(batch)

    def _add(self, batch: Batch) -> None:
        batch.work = np.cumsum(batch.stops - batch.starts)
        self._comparisons += int(batch.work[-1])
        self._tuples += len(batch.sides)
        self._batches.append(batch)

    def pull(self) -> Part | None:
        """Do the next jobs, one per thread; there may be no pairs in them."""
        if not self._batches:
            return None
        batch = self._batches[0]
        jobs: list[slice] = []
        while len(jobs) < self._threads and batch.done < len(batch.sides):
            jobs.append(self._next_job(batch))
        if len(jobs) == 1 or self._pool is None:
            found = [self._scan(batch, job) for job in jobs]
        else:
            found = list(self._pool.map(lambda job: self._scan(batch, job), jobs))
        if batch.done == len(batch.sides):
            self._batches.pop(0)
        whole = slice(jobs[0].start, jobs[-1].stop)
        self._closed += whole.stop - whole.start
        before = np.cumsum([0] + [len(r_id) for r_id, *_ in found])
        r_id, s_id, at = (np.concatenate([one[i] for one in found]) for i in range(3))
        ends = np.concatenate([one[3] + base for one, base in zip(found, before, strict=False)])
        self._results += len(r_id)
        return Part(r_id, s_id, at, ends, batch.starts[whole], batch.stops[whole], self._closed)

    def flush(self) -> None:
        self._batches = []
        self._empty_windows()

    def report(self) -> dict[str, int]:
        return {
            "tuples": self._tuples,
            "results": self._results,
            "comparisons": self._comparisons,
        }

    def _empty_windows(self) -> None:
        plan = self._plan
        self._histories: tuple[History, History] = (
            History(plan.r, plan.window_r),
            History(plan.s, plan.window_s),
        )

    def _probes(self, tuples: Tuples) -> Batch:
        """Lay out new tuples as the engine reads them: a column per word of either side."""
        count = len(tuples)
        words = max(len(self._plan.r.words), len(self._plan.s.words), 1)
        batch = Batch(
            sides=tuples.sides.astype(np.uint8),
            ids=np.empty(count, np.uint32),
            narrow=np.zeros((count, words), np.uint32),
            wide=np.zeros((count, words), np.uint64),
            valid=np.empty(count, np.uint64),
            starts=np.zeros(count, np.int64),
            stops=np.empty(count, np.int64),
            work=np.empty(0, np.int64),
        )
        for side, records in enumerate((tuples.r, tuples.s)):
            mine = tuples.sides == side
            batch.ids[mine] = records["id"]
            batch.valid[mine] = records["valid"]
            for i, word in enumerate(self._plan.layout("rs"[side]).words):
                (batch.wide if word.width > 32 else batch.narrow)[mine, i] = records[word.name]
            # Tuples of the other side that are there before this one.
            batch.stops[mine] = self._histories[1 - side].count + np.cumsum(~mine)[mine]
        return batch

    def _append(self, records: tuple[np.ndarray, np.ndarray]) -> None:
        oldest = self._oldest_needed()
        for history, some, keep_from in zip(self._histories, records, oldest, strict=True):
            history.append(some, keep_from=keep_from)

    def _oldest_needed(self) -> list[int]:
        """Return, of each side, the first tuple that a waiting or coming arrival may see."""
        oldest = []
        for side, history in enumerate(self._histories):
            waiting = [
                int(
                    batch.starts[batch.done :][batch.sides[batch.done :] != side].min(
                        initial=1 << 62
                    )
                )
                for batch in self._batches
            ]
            # The next arrival of the other side sees at least what is there now.
            now = np.array(
                [history.times[history.count - history.base - 1]] if history.count else [0]
            )
            first = int(history.window_starts(np.array([history.count]), now)[0])
            oldest.append(min([first, *waiting]))
        return oldest

    def _next_job(self, batch: Batch) -> slice:
        """Take arrivals whose comparisons add up to a job, at least one arrival."""
        before = batch.work[batch.done - 1] if batch.done else 0
        stop = int(np.searchsorted(batch.work, before + JOB, "right"))
        job = slice(batch.done, max(stop, batch.done + 1))
        batch.done = job.stop
        return job

    def _scan(self, batch: Batch, job: slice) -> tuple[np.ndarray, ...]:
        probes = tuple(
            getattr(batch, name)[job]
            for name in ("sides", "narrow", "wide", "valid", "starts", "stops")
        )
        found, at, ends = scan(self._code, self._histories, probes)  # type: ignore[arg-type]
        counts = np.diff(ends, prepend=0)
        own = np.repeat(batch.ids[job], counts)
        from_r = np.repeat(batch.sides[job] == 0, counts)
        return np.where(from_r, own, found), np.where(from_r, found, own), at, ends
