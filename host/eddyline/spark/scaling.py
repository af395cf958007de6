"""How many units a join has, from run to run: BiStream's resource manager (section 5) on Spark.

Units tell with every batch how much they store. A listener on the driver hears of it, and decides.
Units of a running query cannot change, so a change is written down for the next start.
"""

import json
import logging
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from eddyline.biclique.manager import Manager
from eddyline.spark.errors import StreamJoinError

__all__ = ["WATCHED", "Scaling", "require_scalable", "watched"]

WATCHED = "unit int, stored long"

log = logging.getLogger(__name__)


class Scaling(StreamingQueryListener):
    """Units of a join that follow its load: ``stream_join(…, units=Scaling("units.json", …))``.

    Add it to ``spark.streams.addListener`` to let it watch.

    Parameters
    ----------
    file : str
        Where the number of units is kept, on the driver's machine.
    units : int
        Units to begin with, if there is no such file yet.
    capacity : int
        Bytes that a unit should store at most.
    apply : bool
        Whether a change is written to the file, so that the next start has it. Otherwise it is
        logged, and ``proposed`` says what it would be.
    settings
        Thresholds; see :class:`eddyline.biclique.manager.Manager`.
    """

    def __init__(
        self, file: str, *, units: int, capacity: int, apply: bool = True, **settings: Any
    ):
        self._file = Path(file)
        self._manager = Manager(capacity, **settings)
        self._apply = apply
        self._loads: dict[int, int] = {}
        self.name = f"eddyline_{uuid.uuid4().hex}"
        self.keeps_all = False
        self.units = units
        self.draining: list[int] = []
        self.proposed: int | None = None
        if self._file.exists():
            try:
                known = json.loads(self._file.read_text())
                self.units, self.draining = int(known["units"]), [int(n) for n in known["draining"]]
            except (ValueError, KeyError, TypeError) as error:
                raise StreamJoinError(
                    "SCALING",
                    f"{file} does not say how many units there are ({error}): write "
                    '{"units": 4, "draining": []} with what the last run had',
                ) from None

    def forget(self) -> None:
        """Say that the windows have passed since the last change: earlier units hold nothing."""
        self.draining = []
        self._write(self.units, [])

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        told = event.progress.observedMetrics.get(self.name)
        if told is None:
            return
        for number, stored in enumerate(told):
            if stored is not None:  # a unit that had nothing to do has what it had
                self._loads[number] = stored
        change = self._manager.observe([self._loads.get(n, 0) for n in range(self.units)])
        if change < 0 and self.keeps_all:
            log.warning(
                "%d of %d units would do, but full history never leaves a unit: they stay",
                self.units + change, self.units,
            )  # fmt: skip
        elif change:
            self.proposed = self.units + change
            log.info("%d units instead of %d, from the next start on", self.proposed, self.units)
            if self._apply:
                before = {*self.draining, self.units} - {self.proposed}
                self._write(self.proposed, sorted(before))

    def _write(self, units: int, draining: list[int]) -> None:
        hidden = self._file.with_suffix(".new")
        hidden.write_text(json.dumps({"units": units, "draining": draining}))
        hidden.replace(self._file)


def require_scalable(*, streaming: bool, window: Any, others: tuple) -> None:
    """Refuse joins whose units cannot change."""
    if not streaming:
        raise StreamJoinError("SCALING", "only the units of two streams follow their load")
    if any(one is not None for one in others):
        raise StreamJoinError(
            "SCALING", "subgroups and draining follow the units of a Scaling: leave them out"
        )
    if "rows" in str(window):
        raise StreamJoinError(
            "SCALING", f"window={window!r}: windows of rows have one unit, which cannot be scaled"
        )


def watched(joined: DataFrame, scaling: Scaling) -> DataFrame:
    """Let a listener hear what units store, and pass on everything else."""
    units = max(scaling.units, *scaling.draining, 1)
    each = [F.max(F.when(F.col("unit") == n, F.col("stored"))) for n in range(units)]
    told = joined.observe(scaling.name, *(one.alias(f"unit{n}") for n, one in enumerate(each)))
    return told.filter("payload IS NOT NULL")
