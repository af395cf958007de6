"""Spark's ``transformWithState`` in Python as it is meant to be used: one row after the other."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

__all__ = ["COUNTED", "Counting"]

COUNTED = "rows long"


class Counting(StatefulProcessor):
    """Takes every row, keeps how many there were, and does nothing else: the least there is."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", COUNTED)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        known = self._count.get()
        self._count.update(((known[0] if known else 0) + sum(row.k is not None for row in rows),))
        yield from ()

    def close(self) -> None:
        pass
