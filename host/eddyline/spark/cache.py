"""Units that live on in a worker process between micro-batches.

State is the truth, a unit is a cache of it: every write of a unit's state carries a new mark, and a
unit is used again only if its mark is the one in the state. So it does not matter which attempt of
a task, or which worker, has written last.
"""

import atexit
import json
import os
import socket
import time
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

from eddyline.spark.leases import HeldUnit

__all__ = ["counts", "give_back", "report", "take"]

Key = tuple[str, int]

IDLE = 300  # seconds after which units of other queries go: those may have been stopped

# By query: what became of its units here.
counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
# With its mark, and since when it waits.
_units: OrderedDict[Key, tuple[str, HeldUnit, float]] = OrderedDict()


def take(key: Key, mark: str | None) -> HeldUnit | None:
    """Return the unit if it is here and not behind or ahead of the state. Then it is yours.

    ``mark`` is the one in the state, None if there is no state yet.
    """
    if key not in _units:
        counts[key[0]]["new" if mark is None else "lost"] += 1
        return None
    held, unit, _ = _units.pop(key)
    if held == mark:
        counts[key[0]]["hit"] += 1
        return unit
    counts[key[0]]["stale"] += 1
    unit.close()
    return None


def give_back(key: Key, mark: str, unit: HeldUnit, *, most: int) -> None:
    """Keep a unit whose state was written with this mark, and let go of those that wait too long.

    Nobody says when a query has been stopped. Units of one that has batches may wait for hours.
    """
    now = time.monotonic()
    _units[key] = (mark, unit, now)
    for other, (_, waiting, since) in list(_units.items()):  # those that wait longest first
        if len(_units) > most or (other[0] != key[0] and now - since > IDLE):
            del _units[other]
            waiting.close()
            counts[other[0]]["evicted"] += 1


def report(folder: str, query: str) -> None:
    """Write what this process has counted of a query so far to a file of its own."""
    # Hosts may share the folder.
    name = Path(folder) / f"{query}-{socket.gethostname()}-{os.getpid()}.json"
    name.parent.mkdir(parents=True, exist_ok=True)
    hidden = name.with_suffix(".new")
    hidden.write_text(json.dumps(counts[query]))
    hidden.replace(name)


@atexit.register
def _close() -> None:
    while _units:
        _units.popitem()[1][1].close()
