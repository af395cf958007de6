"""A join of two streams without Spark: batches go to units, whose state is kept in memory."""

from collections import defaultdict
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from eddyline.api import make_query
from eddyline.biclique.envelope import unpack
from eddyline.biclique.routing import make_routing
from eddyline.query import Query
from eddyline.spark.joiner import Joiner
from eddyline.spark.request import Request
from eddyline.spark.router import SPREAD, packer
from eddyline.spark.rowhash import row_hashes

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("t", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("x", pa.int32()),
    ]
)


def query_of(on: str, window: Any, select: str = "r.n AS r, s.n AS s") -> Query:
    window = tuple(window) if isinstance(window, tuple | list) else window
    return make_query(SCHEMA, SCHEMA, on, window=window, time="t", select=select)


def request_of(query: Query, units: Any = 1, **options: Any) -> Request:
    """Return what workers would be told; units are loaded anew with every batch."""
    subgroups, draining = options.pop("subgroups", None), options.pop("draining", ())
    routing = make_routing(query, units, subgroups, draining)
    given = {"chunk_bytes": 1 << 20, "cached_units": 0, "metrics": "", "delay": 0} | options
    return Request(query, routing, "cpu", "", streams=True, **given)


def rows_of(many: list[tuple[int, int, int | None]]) -> pa.RecordBatch:
    """Return rows of numbers, times in milliseconds, and values."""
    columns = zip(*many, strict=True) if many else [[]] * 3
    arrays = [pa.array(one, field.type) for one, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class State:
    """What Spark keeps of a unit, and its timers."""

    def __init__(self) -> None:
        self.known: dict[str, dict] = defaultdict(dict)
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: str) -> Any:
        known = self.known[name]
        return SimpleNamespace(
            get=lambda: known.get(0), update=lambda value: known.update({0: value})
        )

    def getMapState(self, name: str, key: str, value: str) -> Any:
        known = self.known[name]
        return SimpleNamespace(
            getValue=known.get,
            removeKey=known.pop,
            updateValue=lambda number, payload: known.update({number: payload}),
        )

    def listTimers(self) -> list[int]:
        return sorted(self.timers)

    def registerTimer(self, when: int) -> None:
        self.timers.add(when)

    def deleteTimer(self, when: int) -> None:
        self.timers.remove(when)


class Checkpoint:
    """The units of a query, from run to run."""

    def __init__(self) -> None:
        self.units: dict[int, State] = defaultdict(State)

    def copy(self) -> "Checkpoint":
        other = Checkpoint()
        other.units |= deepcopy(self.units)
        return other

    def batch(
        self, request: Request, r: list[tuple], s: list[tuple], watermark: int
    ) -> list[tuple[int, int]]:
        """Return the pairs that a batch gives at a watermark in milliseconds."""
        arrived: dict[int, list[Any]] = defaultdict(list)
        for side, rows in (("r", rows_of(r)), ("s", rows_of(s))):
            if request.sequenced:
                rows = rows.append_column(SPREAD, row_hashes(rows))
            for envelopes in packer(request, side)([rows]):
                for one in envelopes.to_pylist():
                    arrived[one["unit"]].append(SimpleNamespace(**one))
        timers = SimpleNamespace(getCurrentWatermarkInMs=lambda: watermark)
        found: list[tuple[int, int]] = []
        for unit in sorted(arrived):
            joiner = self._joiner(request, unit)
            found += _pairs(joiner.handleInputRows((unit,), iter(arrived[unit]), timers))
        for unit, state in list(self.units.items()):
            for due in [one for one in state.listTimers() if one <= watermark]:
                state.timers.discard(due)
                joiner = self._joiner(request, unit)
                found += _pairs(joiner.handleExpiredTimer((unit,), timers, None))
        return found

    def _joiner(self, request: Request, unit: int) -> Joiner:
        joiner = Joiner(request)
        joiner.init(self.units[unit])
        return joiner


def _pairs(results: Any) -> list[tuple[int, int]]:
    return [
        pair
        for one in results
        for rows in unpack(one.payload)
        for pair in zip(rows["r"].to_pylist(), rows["s"].to_pylist(), strict=True)
    ]
