"""Online aggregation in two phases (BiStream, section 3.4.2).

Every micro-batch is aggregated by Spark where its results are, and what comes of it is merged into
one view. So the view is up to date after each batch, over streams without an end.
"""

import operator
import pickle
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["View"]

MERGED = {"count": operator.add, "sum": operator.add, "min": min, "max": max}


class View:
    """Aggregates by group: ``View(["n_name"], ("sum", "revenue"))``.

    ``rows`` is the view: group to aggregates. A batch that comes a second time is not merged again.
    ``run`` keeps the view in the query's checkpoint, so that both go on from the same batch.
    """

    def __init__(self, keys: list[str], *aggregates: tuple[str, str]):
        self.rows: dict[tuple, list[Any]] = {}
        self._keys = keys
        self._aggregates = aggregates
        self._last = -1
        self._file: Path | None = None

    def merge(self, batch: DataFrame, number: int) -> None:
        """Take a micro-batch: for ``writeStream.foreachBatch``."""
        if number <= self._last:
            return
        what = [
            getattr(F, name)(column).alias(f"{name}_{column}") for name, column in self._aggregates
        ]
        for row in batch.groupBy(*self._keys).agg(*what).collect():
            group, new = tuple(row[: len(self._keys)]), list(row[len(self._keys) :])
            if group in self.rows:
                known = zip(self._aggregates, self.rows[group], new, strict=True)
                new = [MERGED[name](old, one) for (name, _), old, one in known]
            self.rows[group] = new
        self._last = number
        if self._file:
            hidden = self._file.with_suffix(".new")
            hidden.write_bytes(pickle.dumps((self._last, self.rows)))
            hidden.replace(self._file)

    def run(self, results: DataFrame, checkpoint: str) -> list[tuple]:
        """Merge all that is there of a stream; return the view as sorted rows.

        Raises
        ------
        ValueError
            If the checkpoint has batches, and no view of them: sums would begin at zero.
        """
        self._file = Path(checkpoint) / "view"
        if self._file.exists():
            self._last, self.rows = pickle.loads(self._file.read_bytes())
        elif any(Path(checkpoint, "commits").glob("[0-9]*")):
            raise ValueError(f"{checkpoint} has batches and no view of them: take another one")
        writer = results.writeStream.foreachBatch(self.merge).trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        return sorted((*group, *values) for group, values in self.rows.items())
