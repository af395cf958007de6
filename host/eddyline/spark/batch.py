"""Two tables: the same units, without state."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from eddyline.biclique.envelope import Payloads, opened
from eddyline.biclique.unit import Sent
from eddyline.results import result_schema
from eddyline.spark.request import Request
from eddyline.spark.router import SPREAD, columns_sent
from eddyline.spark.schemas import conformed, spark_schema
from eddyline.times import times_of

__all__ = ["joined_batch"]

TOGETHER = 1 << 15  # rows of the longer side that a unit joins at a time


def joined_batch(sent: DataFrame, request: Request) -> DataFrame:
    """Join what was sent to the units, each of which sees its rows in order of time."""
    schema = result_schema(request.query)

    def join_unit(envelopes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        payloads: dict[tuple[str, bool], list[bytes]] = {}
        for batch in envelopes:
            for side, stores, payload in zip(
                batch["side"].to_pylist(), batch["stores"].to_pylist(), batch["payload"],
                strict=True,
            ):  # fmt: skip
                payloads.setdefault((side, stores), []).append(payload.as_buffer())
        for rows in _results(request, payloads):
            yield conformed(rows, schema)

    return sent.groupBy("unit").applyInArrow(join_unit, spark_schema(schema))


def _results(request: Request, payloads: Payloads) -> Iterator[pa.RecordBatch]:
    sides = [_Ordered(request, side, payloads) for side in "rs"]
    unit = request.unit()
    try:
        if not request.query.time:  # every row of R comes before every row of S
            yield from unit.join(*(one.part(0, len(one)) for one in sides))
            return
        places = [0, 0]
        for cut in max(sides, key=len).times[TOGETHER::TOGETHER].tolist():
            yield from unit.join(*_up_to(cut, sides, places))
            unit.forget(cut)
        yield from unit.join(*(one.part(a, len(one)) for one, a in zip(sides, places, strict=True)))
    finally:
        unit.close()


def _up_to(cut: int, sides: "list[_Ordered]", places: list[int]) -> list[Sent]:
    """Return the rows below a time, of both sides, that come after ``places``; move these."""
    sent = []
    for number, one in enumerate(sides):
        end = int(np.searchsorted(one.times, cut, "left"))
        sent.append(one.part(places[number], end))
        places[number] = end
    return sent


class _Ordered:
    """The rows of one side in order of time, and which of them this unit stores."""

    def __init__(self, request: Request, side: str, payloads: Payloads):
        schema = columns_sent(request, side)
        rows, stores = opened(payloads, side, schema)
        self.times = np.zeros(rows.num_rows, np.int64)
        if request.query.time:
            self.times = times_of(request.query, side, rows, lambda row: f"table {side}, row {row}")
        steps = np.diff(self.times)
        # Sorted and without ties there is nothing to decide.
        ties = request.sequenced and not (steps > 0).all()
        if ties or (steps < 0).any():
            spread = (rows[SPREAD].to_numpy(zero_copy_only=False),) if ties else ()
            order = np.lexsort((*spread, self.times))
            rows, stores, self.times = rows.take(pa.array(order)), stores[order], self.times[order]
        self._rows = rows
        self._stores = stores if request.routing.shares > 1 else None

    def __len__(self) -> int:
        return len(self.times)

    def part(self, begin: int, end: int) -> Sent:
        stores = None if self._stores is None else self._stores[begin:end]
        return Sent(self._rows.slice(begin, end - begin), stores)
