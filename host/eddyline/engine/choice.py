"""Which engine joins a plan, and why.

For equalities it is a hash, and for bands in any order a grid of cells. A bound on one side leaves
about half of a window, and testing that costs more than comparing all of it, which needs no index:
where more conditions follow a bound, every pair is compared. For other bands and ranges the rule
is PanJoin's (section V-A4): BI-Sort where batches or selectivity are large, else the RaP-Table
where keys keep their distribution, else the WiB+-Tree. What is large goes by the window: BI-Sort
needs a lookup per subwindow, and more subwindows the smaller batches are beside the window. The
border lies between the few points that were tried (docs/decisions.md).

These engines are compiled from C++. Without a compiler, ``sorted`` takes their place: BI-Sort in
numba, for all but inequalities.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from eddyline.build.native import compiler
from eddyline.engine.access import NO_BOUND, Path, access_paths
from eddyline.engine.part import Engine, ShareEngine
from eddyline.errors import DeviceError
from eddyline.plan import Plan

__all__ = ["Choice", "Observed", "among_workers", "choose", "follow", "uncompiled", "unserved"]

# Tuples of a window per tuple of a batch, from which on BI-Sort's subwindows are too many.
LARGE_BATCH = 1 << 14
# Pairs per tuple from which on handing over ranges outweighs everything.
LARGE_SELECTIVITY = 64
# Distance of the distributions of two subwindows that are no longer alike.
DRIFTS = 0.25


@dataclass(frozen=True)
class Observed:
    """What a join has seen of late: tuples of the larger window and of a batch, pairs, drift."""

    window: int
    batch: float
    selectivity: float
    drift: float


def follow(seen: Observed) -> tuple[str, str]:
    """Return the structure for new subwindows of bands and ranges, and the reason."""
    if seen.batch * LARGE_BATCH >= seen.window:
        return "bisort", f"batches of {seen.batch:.0f} are large for windows of {seen.window}"
    if seen.selectivity >= LARGE_SELECTIVITY:
        return "bisort", f"{seen.selectivity:.0f} pairs per tuple: ranges are cheaper than copies"
    few = f"batches of {seen.batch:.0f} are small for windows of {seen.window}"
    if seen.drift < DRIFTS:
        return "rap", f"{few}, and keys keep their distribution"
    return "wib", f"{few}, and the distribution of keys moves by {seen.drift:.0%}"


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
        if self.engine == "sorted":
            from eddyline.engine.sorted_join import SortedJoin

            return SortedJoin(plan, self.paths, threads=threads)
        from eddyline.engine.indexed import IndexedJoin, library

        library(progress)
        return IndexedJoin(
            plan, self.paths, engine=self.engine, threads=threads, subwindows=subwindows
        )

    @property
    def compiled(self) -> bool:
        """Whether the engine is made of C++."""
        return self.paths is not None and self.engine != "sorted"

    def open_share(
        self, plan: Plan, *, threads: int = 1, subwindows: int = 0, shares: int = 0
    ) -> ShareEngine:
        """Open an engine that can store a share; what needs no compiler compares every pair."""
        if not self.compiled:
            from eddyline.engine.nested_share import NestedLoopShare

            return NestedLoopShare(plan, threads=threads)
        from eddyline.engine.indexed import IndexedJoin

        assert self.paths is not None
        return IndexedJoin(
            plan, self.paths,
            engine=self.engine, threads=threads, subwindows=subwindows, shares=shares,
        )  # fmt: skip


def choose(plan: Plan, engine: str = "auto") -> Choice:
    """Choose an engine for a plan, or take the one that was asked for.

    Raises
    ------
    DeviceError
        If the engine that was asked for cannot serve the predicate.
    """
    if engine == "nested":
        return Choice("nested", None, "asked for: every pair is compared")
    if engine == "auto" and compiler() is None:
        return uncompiled(plan, "no C++ compiler")
    paths = access_paths(plan)
    if paths is None:
        if engine == "auto":
            return Choice("nested", None, "no index serves this predicate: every pair is compared")
        raise DeviceError(
            f"engine {engine!r} cannot serve this predicate, no index can: use nested or auto"
        )
    if engine == "sorted" and any(path.unequal for path in paths):
        raise DeviceError("engine 'sorted' does not serve inequalities: use nested, bisort or auto")
    if engine == "hash" and not all(path.by_hash for path in paths):
        raise DeviceError(
            "engine 'hash' serves equalities alone: use bisort, rap or wib for bands and ranges"
        )
    if engine == "grid" and not cells_serve(plan, paths):
        raise DeviceError(
            "engine 'grid' serves one band or two, without equalities, in order none: "
            "use bisort, or auto"
        )
    if engine != "auto":
        return Choice(engine, paths, "asked for" + unserved(paths, engine))
    if all(path.by_hash for path in paths):
        return Choice("hash", paths, "equalities only: a hash finds them in one step")
    if cells_serve(plan, paths) and bounded(paths[0]):
        bands = "band" if len(paths[0].dimensions) == 1 else "two-dimensional band"
        return Choice("grid", paths, f"{bands} in any order: cells of a few tuples")
    if any(leaves_much(path) for path in paths):
        return Choice(
            "nested", None, "bounds on one side and more conditions: comparing all pairs is faster"
        )
    if any(path.dimensions for path in paths):
        shape = "two-dimensional band" if any(len(p.dimensions) > 1 for p in paths) else "range"
        return Choice("bisort", paths, f"{shape}: sorted subwindows, unless batches prove small")
    return Choice("bisort", paths, "inequality: sorted subwindows, all but the equal ones")


def among_workers(choice: Choice) -> Choice:
    """Return what workers use, which share sorted batches: of cells, none has a part."""
    if choice.engine != "grid":
        return choice
    return replace(choice, engine="bisort", reason="workers share sorted subwindows, not cells")


def unserved(paths: list[Path], engine: str) -> str:
    """Add to a reason what the engine looks up in another structure than its own."""
    if engine not in ("rap", "wib"):
        return ""
    others = [path for path in paths if path.structure(engine) != engine]
    names = ["inequalities" if path.unequal else "two bands" for path in others]
    return f"; {' and '.join(sorted(set(names)))} are looked up in bisort" if names else ""


def uncompiled(plan: Plan, why: str) -> Choice:
    """Return the best engine that needs no compiler."""
    paths = access_paths(plan)
    if paths is None or any(path.unequal for path in paths):
        return Choice("nested", None, f"{why}, and no index in numba: every pair is compared")
    return Choice("sorted", paths, f"{why}: sorted runs in numba, slower than compiled engines")


def bounded(path: Path) -> bool:
    """Say whether every dimension is a band, not a bound on one side."""
    return all(NO_BOUND not in (*one.words("r"), *one.words("s")) for one in path.dimensions)


def leaves_much(path: Path) -> bool:
    """Say whether a path finds far more candidates than pairs, by a bound on one side alone."""
    return bool(path.dimensions and path.residual and not path.equal and not bounded(path))


def cells_serve(plan: Plan, paths: list[Path]) -> bool:
    """Say whether a grid of cells can serve; it gives pairs in any order."""
    return (
        plan.order.kind == "none"
        and len(paths) == 1
        and bool(paths[0].dimensions)
        and not paths[0].equal
    )
