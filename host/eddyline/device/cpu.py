"""The cpu device: an index where one serves the predicate, the nested loop otherwise."""

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Self

import numpy as np

from eddyline.device import Counters, Results, Tuples, joined, no_results
from eddyline.device.stars import left_open, star_positions
from eddyline.engine.choice import (
    Choice,
    Observed,
    among_workers,
    choose,
    follow,
    uncompiled,
    unserved,
)
from eddyline.engine.indexed import IndexedJoin
from eddyline.engine.part import Engine, Part
from eddyline.errors import DeviceError, MachineError
from eddyline.plan import Plan

__all__ = ["CpuDevice"]

logger = logging.getLogger(__name__)

# Pushed tuples after which the choice of a structure is looked at again.
RECONSIDER = 1 << 16


class CpuDevice:
    """Join on this machine's cores.

    Parameters
    ----------
    threads : int, optional
        Cores to use; all of them by default.
    engine : str
        How windows are searched; ``auto`` goes by the predicate and by what it observes.
    subwindows : int, optional
        Subwindows per window; by default chosen from the sizes of window and batches.
    workers : int, optional
        Processes that share the windows and the threads; by default this process does all.
    sharing : str
        What workers take in turn: subwindows (PanJoin) or tuples (ScaleJoin).
    progress : function of a text, optional
        Is told when the engine is compiled.
    """

    name = "cpu"

    def __init__(
        self,
        *,
        threads: int | None = None,
        engine: Literal[
            "auto", "bisort", "rap", "wib", "hash", "grid", "sorted", "nested"
        ] = "auto",
        subwindows: int | None = None,
        workers: int | None = None,
        sharing: Literal["subwindows", "tuples"] = "subwindows",
        progress: Callable[[str], None] | None = None,
    ):
        self.threads = threads or len(os.sched_getaffinity(0))
        self.engine = engine
        self.subwindows = subwindows
        self.workers = workers
        self.sharing = sharing
        self._progress = progress
        self._engine: Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._engine:
            self._engine.close()
            self._engine = None

    def configure(self, plan: Plan) -> None:
        self._plan = plan
        self.__exit__()
        choice = choose(plan, self.engine)
        try:
            self._engine = self._open(choice, plan)
        except MachineError as error:
            if self.engine != "auto":
                raise DeviceError(f"engine {self.engine!r}: {error}") from None
            choice = uncompiled(plan, str(error))
            self._engine = self._open(choice, plan)
        if self.engine == "auto" and not choice.compiled:
            logger.warning("engine %s, %s", choice.engine, choice.reason)
        self._adapts = self.engine == "auto" and choice.engine == "bisort"
        self.choice = among_workers(choice) if self.workers else choice
        self._pushes = self._pushed = self._tuples = self._pairs = 0
        self._closed = self._since_flush = 0

    def push(self, tuples: Tuples) -> None:
        if not len(tuples):
            return
        self._running.push(tuples)
        self._pushes += 1
        self._pushed += len(tuples)
        if self._adapts and self._pushed >= RECONSIDER:
            self._reconsider()

    def _reconsider(self) -> None:
        """Let new subwindows have the structure that suits what was seen since the last look."""
        running = self._running
        if not isinstance(running, IndexedJoin):
            return
        report = running.report()
        tuples, pairs = report["tuples"], report["results"]
        seen = Observed(
            window=max(report[f"subwindow_tuples_{s}"] * report[f"subwindows_{s}"] for s in "rs"),
            batch=self._pushed / self._pushes,
            selectivity=(pairs - self._pairs) / max(tuples - self._tuples, 1),
            drift=max(report["drift_r"], report["drift_s"]) / 1e6,
        )
        self._pushes = self._pushed = 0
        self._tuples, self._pairs = tuples, pairs
        engine, reason = follow(seen)
        if engine != self.choice.engine:
            reason += unserved(running.paths, engine)
            logger.info("new subwindows are %s: %s", engine, reason)
            self.choice = replace(self.choice, engine=engine, reason=reason)
            running.use(engine)

    def pull(self) -> Results:
        while (part := self._running.pull()) is not None:
            results = self._starred(part)
            if not results.nothing:
                return results
        running = self._running
        if self.choice.engine == "grid" and isinstance(running, IndexedJoin) and running.gave_way:
            reason = "many pairs per tuple: ranges are cheaper than cells"
            logger.info("cells have become bisort: %s", reason)
            self.choice = replace(self.choice, engine="bisort", reason=reason)
        return no_results(self._closed)

    def flush(self) -> Results:
        parts = []
        while (part := self._running.pull()) is not None:
            parts.append(self._starred(part))
        if left_open(self._plan.order, self._since_flush):
            parts.append(replace(no_results(self._closed), stars=np.zeros(1, np.int64)))
        self._since_flush = 0
        self._running.flush()
        return joined(parts, self._closed)

    def accept_late(self) -> bool:
        """See :class:`eddyline.device.TakesLate`."""
        return isinstance(self._running, IndexedJoin) and self._running.accept_late()

    def watermark(self, r: int, s: int) -> None:
        """See :class:`eddyline.device.TakesLate`."""
        if isinstance(self._running, IndexedJoin):
            self._running.watermark(r, s)

    def counters(self) -> Counters:
        return {**self._running.report()}

    def _open(self, choice: Choice, plan: Plan) -> Engine:
        subwindows = self.subwindows or 0
        if not self.workers:
            return choice.open(
                plan, threads=self.threads, subwindows=subwindows, progress=self._progress
            )
        from eddyline.engine.manager import ManagedJoin

        return ManagedJoin(
            plan,
            workers=self.workers,
            share=self.sharing,
            engine=choice.engine,
            threads=max(1, self.threads // self.workers),
            subwindows=subwindows,
            progress=self._progress,
        )

    @property
    def _running(self) -> Engine:
        if self._engine is None:
            raise DeviceError("device 'cpu' has no plan yet: configure it first")
        return self._engine

    def _starred(self, part: Part) -> Results:
        arrivals = part.closed - self._closed
        if self._plan.order.kind == "none":  # one star when a batch is complete
            stars = np.array([len(part.r_id)] if arrivals else [], np.int64)
        else:
            stars = star_positions(
                self._plan.order, self._since_flush, part.starts, part.stops, part.at, part.ends
            )
        self._closed = part.closed
        self._since_flush += arrivals
        return Results(part.r_id, part.s_id, stars, self._closed)
