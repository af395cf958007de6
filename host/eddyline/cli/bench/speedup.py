"""How much faster than a plain B-tree a WiB+-Tree is, as in figure 11f of PanJoin's paper."""

from collections.abc import Callable
from typing import Any

from eddyline.cli.bench.subwindow import Point, Rate

__all__ = ["PEER", "speedups"]

PEER = "btree"
PARTITION = 64  # tuples of a leaf: the paper's 8M in 128K


def speedups(
    subwindow: int,
    batches: tuple[int, ...],
    selectivities: tuple[int, ...],
    measure: Callable[[Point], Rate],
) -> list[dict[str, Any]]:
    """Return a row per batch: how many times as fast each operation is."""
    least, most = selectivities[0], selectivities[-1]
    operations = {
        "insertion": ("insert", least),
        f"equality, selectivity {least}": ("equal", least),
        f"equality, selectivity {most}": ("equal", most),
        f"band, selectivity {least}": ("band", least),
        f"band, selectivity {most}": ("band", most),
    }
    rates: dict[tuple[str, str, int], float] = {}
    # Batches last, so that a structure that is filled serves for all of them.
    for name, (operation, selectivity) in operations.items():
        for engine in ("wib", PEER):
            for batch in batches:
                point = Point(
                    engine, operation, subwindow, batch, subwindow // PARTITION, selectivity
                )
                rates[name, engine, batch] = measure(point).median
    return [
        {"batch": batch}
        | {name: rates[name, "wib", batch] / rates[name, PEER, batch] for name in operations}
        for batch in batches
    ]
