"""How long it takes until the death of a worker is noticed, and until another has its windows."""

import logging
import os
import signal
import statistics
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from eddyline.api import make_query
from eddyline.device import Tuples
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.engine.manager import Crew, ManagedJoin
from eddyline.query.window import rows

DEATHS, WINDOW, BATCH = 15, 1 << 18, 1 << 12
SPAN = 1 << 30


class Noting(Crew):
    """Workers whose replacements are noted."""

    replaced = 0.0

    def replace(self, place: int) -> None:
        self.replaced = time.monotonic()
        super().replace(place)


def measure() -> Iterator[str]:
    schema = pa.schema({"x": pa.int32()})
    query = make_query(schema, schema, "abs(r.x - s.x) <= 500", window=rows(WINDOW))
    rng = np.random.default_rng(1)

    encoders = {
        side: SideEncoder(query.lowering.side(side), Dictionary(), side=side) for side in "rs"
    }

    def batch(count: int) -> Tuples:
        r, s = (
            encoder.encode(
                pa.record_batch([rng.integers(0, SPAN, count // 2, np.int32)], schema=schema)
            )
            for encoder in encoders.values()
        )
        return Tuples(np.tile(np.array([0, 1], np.uint8), count // 2), r, s)

    logging.getLogger("eddyline").setLevel(logging.ERROR)  # each death is a warning
    crew = Noting(2)
    for state in ("idle", "busy"):
        noticed, whole = [], []
        with ManagedJoin(query.plan, crew=crew) as join:
            for _ in range(2 * WINDOW // (1 << 14)):
                join.push(batch(1 << 14))
                _pull(join)
            for number in range(DEATHS):
                crew.replaced = 0.0
                if state == "busy":
                    join.push(batch(4 * BATCH))
                died = time.monotonic()
                os.kill(crew.pids[number % 2], signal.SIGKILL)
                while state == "idle" and not crew.replaced:
                    time.sleep(0.0002)
                join.push(batch(BATCH))
                _pull(join)
                noticed.append(crew.replaced - died)
                whole.append(time.monotonic() - died)
        yield (
            f"{state}: noticed after {1e3 * statistics.median(noticed):.1f} ms, at the most "
            f"{1e3 * max(noticed):.1f}; results again after {1e3 * statistics.median(whole):.0f} "
            f"ms (medians of {DEATHS}, windows of {WINDOW})"
        )
    crew.close()


def _pull(join: ManagedJoin) -> None:
    join.end()
    while join.pull() is not None:
        pass
