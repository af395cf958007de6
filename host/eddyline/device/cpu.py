"""The cpu device: the nested loop in vector code, on all cores."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from eddyline.device import Counters, Results, Tuples, joined, no_results
from eddyline.device.stars import left_open, star_positions
from eddyline.engine.history import History
from eddyline.engine.nested_loop import program, scan, warm_up
from eddyline.plan import Plan

__all__ = ["CpuDevice"]

# Comparisons of one job: its output is allocated for the case that all of them match.
JOB = 1 << 22


@dataclass
class _Batch:
    """Pushed arrivals that wait for their turn, as the engine reads them.

    ``work`` adds up their comparisons; ``first`` is the number of the first arrival since the
    last flush; ``done`` of them have been scanned.
    """

    sides: np.ndarray
    ids: np.ndarray
    narrow: np.ndarray
    wide: np.ndarray
    valid: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    work: np.ndarray
    first: int
    done: int = 0


class CpuDevice:
    """Join on this machine's cores.

    Parameters
    ----------
    threads : int, optional
        Cores to use; all of them by default.
    """

    name = "cpu"

    def __init__(self, *, threads: int | None = None):
        self.threads = threads or len(os.sched_getaffinity(0))
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        warm_up()
        self._pool = ThreadPoolExecutor(self.threads)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def configure(self, plan: Plan) -> None:
        self._plan = plan
        self._empty_windows()
        self._code = tuple(
            program(plan, side, history.places)
            for side, history in zip("rs", self._histories, strict=True)
        )
        self._batches: list[_Batch] = []
        self._closed = self._tuples = self._results = self._comparisons = 0
        self._since_flush = 0

    def push(self, tuples: Tuples) -> None:
        if not len(tuples):
            return
        records = (tuples.r, tuples.s)
        batch = self._probes(tuples)
        self._append(records)
        now = np.empty(len(tuples), np.int64)
        for side in (0, 1):
            now[tuples.sides == side] = records[side]["time"]
        for side in (0, 1):
            mine, other = tuples.sides == side, self._histories[1 - side]
            batch.starts[mine] = other.window_starts(batch.stops[mine], now[mine])
        batch.work = np.cumsum(batch.stops - batch.starts)
        self._comparisons += int(batch.work[-1])
        self._tuples += len(tuples)
        self._since_flush += len(tuples)
        self._batches.append(batch)

    def pull(self) -> Results:
        while self._batches:
            results = self._work()
            if not results.nothing:
                return results
        return no_results(self._closed)

    def _work(self) -> Results:
        """Do the next jobs, one per thread; there may be neither pairs nor stars in them."""
        batch = self._batches[0]
        jobs: list[slice] = []
        while len(jobs) < self.threads and batch.done < len(batch.sides):
            jobs.append(self._next_job(batch))
        if len(jobs) == 1 or self._pool is None:
            found = [self._scan(batch, job) for job in jobs]
        else:
            found = list(self._pool.map(lambda job: self._scan(batch, job), jobs))
        if batch.done == len(batch.sides):
            self._batches.pop(0)
        self._closed += sum(job.stop - job.start for job in jobs)
        results = joined(found, self._closed)
        self._results += len(results)
        return results

    def flush(self) -> Results:
        parts = []
        while self._batches:
            parts.append(self.pull())
        if left_open(self._plan.order, self._since_flush):
            none = no_results(self._closed)
            parts.append(replace(none, stars=np.zeros(1, np.int64)))
        self._since_flush = 0
        self._empty_windows()
        return joined(parts, self._closed)

    def counters(self) -> Counters:
        return {
            "tuples": self._tuples,
            "results": self._results,
            "comparisons": self._comparisons,
        }

    def _empty_windows(self) -> None:
        plan = self._plan
        self._histories = (History(plan.r, plan.window_r), History(plan.s, plan.window_s))

    def _probes(self, tuples: Tuples) -> _Batch:
        """Lay out new tuples as the engine reads them: a column per word of either side."""
        count = len(tuples)
        words = max(len(self._plan.r.words), len(self._plan.s.words), 1)
        batch = _Batch(
            sides=tuples.sides.astype(np.uint8),
            ids=np.empty(count, np.uint32),
            narrow=np.zeros((count, words), np.uint32),
            wide=np.zeros((count, words), np.uint64),
            valid=np.empty(count, np.uint64),
            starts=np.zeros(count, np.int64),
            stops=np.empty(count, np.int64),
            work=np.empty(0, np.int64),
            first=self._since_flush,
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
            oldest = int(history.window_starts(np.array([history.count]), now)[0])
            history.append(records[side], keep_from=min([oldest, *waiting]))

    def _next_job(self, batch: _Batch) -> slice:
        """Take arrivals whose comparisons add up to a job, at least one arrival."""
        before = batch.work[batch.done - 1] if batch.done else 0
        stop = int(np.searchsorted(batch.work, before + JOB, "right"))
        job = slice(batch.done, max(stop, batch.done + 1))
        batch.done = job.stop
        return job

    def _scan(self, batch: _Batch, job: slice) -> Results:
        probes = tuple(
            getattr(batch, name)[job]
            for name in ("sides", "narrow", "wide", "valid", "starts", "stops")
        )
        found, at, ends = scan(self._code, self._histories, probes)  # type: ignore[arg-type]
        counts = np.diff(ends, prepend=0)
        own = np.repeat(batch.ids[job], counts)
        from_r = np.repeat(batch.sides[job] == 0, counts)
        r_id, s_id = np.where(from_r, own, found), np.where(from_r, found, own)
        stars = star_positions(
            self._plan.order,
            batch.first + job.start,
            batch.starts[job],
            batch.stops[job],
            at,
            ends,
        )
        return Results(r_id, s_id, stars, 0)
