"""Which engine joins a plan, and why."""

from collections.abc import Callable
from dataclasses import dataclass

from eddyline.engine.access import Path, access_paths
from eddyline.engine.part import Engine
from eddyline.errors import DeviceError
from eddyline.plan import Plan

__all__ = ["Choice", "choose"]


@dataclass(frozen=True)
class Choice:
    """An engine, how it looks up, and the reason in a sentence."""

    engine: str
    paths: list[Path] | None
    reason: str

    def open(
        self,
        plan: Plan,
        *,
        threads: int = 1,
        subwindows: int = 0,
        progress: Callable[[str], None] | None = None,
    ) -> Engine:
        if self.paths is None:
            from eddyline.engine.nested_join import NestedLoopJoin

            return NestedLoopJoin(plan, threads=threads)
        from eddyline.engine.indexed import IndexedJoin, library

        library(progress)
        return IndexedJoin(
            plan, self.paths, engine=self.engine, threads=threads, subwindows=subwindows
        )


def choose(plan: Plan, engine: str = "auto") -> Choice:
    """Choose an engine for a plan, or take the one that was asked for.

    Raises
    ------
    DeviceError
        If the engine that was asked for cannot serve the predicate.
    """
    if engine == "nested":
        return Choice("nested", None, "asked for: every pair is compared")
    paths = access_paths(plan)
    if paths is None:
        if engine == "auto":
            return Choice("nested", None, "no index serves this predicate: every pair is compared")
        raise DeviceError(
            f"engine {engine!r} cannot serve this predicate, no index can: use nested or auto"
        )
    if engine == "hash" and not all(path.by_hash for path in paths):
        raise DeviceError(
            "engine 'hash' serves equalities alone: use bisort, rap or wib for bands and ranges"
        )
    if engine != "auto":
        return Choice(engine, paths, "asked for")
    if all(path.by_hash for path in paths):
        return Choice("hash", paths, "equalities only: a hash finds them in one step")
    return Choice("bisort", paths, "bands or ranges: sorted subwindows")
