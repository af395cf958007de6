"""The definition as a device: plain Python, for comparison and for small inputs."""

from collections.abc import Iterable
from typing import Self

import numpy as np

from eddyline.device import Counters, Results, Tuples, joined, no_results
from eddyline.plan import Plan
from eddyline.reference import STAR, Arrival, Join

__all__ = ["ReferenceDevice"]


class ReferenceDevice:
    """Run :mod:`eddyline.reference` on records."""

    name = "reference"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None: ...

    def configure(self, plan: Plan) -> None:
        self._join = Join(plan.matches, plan.window_r, plan.window_s, plan.order)
        self._ready: list[Results] = []
        self._closed = self._tuples = self._results = 0

    def push(self, tuples: Tuples) -> None:
        records = {"r": iter(tuples.r), "s": iter(tuples.s)}
        out: list[tuple[int, int] | str] = []
        for side in np.where(tuples.sides == 0, "r", "s").tolist():
            record = next(records[side])
            out += self._join.arrive(Arrival(side, int(record["id"]), record, int(record["time"])))
        self._tuples += len(tuples)
        self._closed += len(tuples)
        self._keep(out)

    def pull(self) -> Results:
        return self._ready.pop(0) if self._ready else no_results(self._closed)

    def flush(self) -> Results:
        self._keep(self._join.end())
        parts, self._ready = self._ready, []
        return joined(parts, self._closed)

    def counters(self) -> Counters:
        return {"tuples": self._tuples, "results": self._results}

    def _keep(self, out: Iterable[tuple[int, int] | str]) -> None:
        pairs: list[tuple[int, int]] = []
        stars: list[int] = []
        for item in out:
            if item == STAR:
                stars.append(len(pairs))
            else:
                pairs.append(item)  # type: ignore[arg-type]
        self._results += len(pairs)
        ids = np.array(pairs, np.uint32).reshape(-1, 2)
        results = Results(ids[:, 0], ids[:, 1], np.array(stars, np.int64), self._closed)
        if not results.nothing:
            self._ready.append(results)
