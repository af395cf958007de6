"""The encoder against a plain copy of the columns.

``abs(a - b)`` on floats searches its bounds; everything else is arithmetic.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bench.clock import cpu_seconds
from eddyline.api import make_query
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.streams import BAND_2D, SplitJoin

ROWS = 1 << 17
PREDICATES = {
    "two-dimensional band": BAND_2D,
    "equality": "r.x = s.a",
    "float distance": "abs(r.y - s.b) <= 10",
    "text": "r.z = s.z",
}


def measure() -> Iterator[str]:
    r = pa.Table.from_batches(SplitJoin(ROWS, seed=1).batches("r"))
    s = pa.Table.from_batches(SplitJoin(ROWS, seed=1).batches("s")).append_column("z", r["z"])
    batch = s.combine_chunks().to_batches()[0]
    copy = cpu_seconds(lambda: [np.array(batch[name]) for name in ("a", "b")])
    for name, on in PREDICATES.items():
        query = make_query(r.schema, s.schema, on)

        def encode(query=query) -> None:  # type: ignore[no-untyped-def]
            SideEncoder(query.lowering.s, Dictionary(), side="s").encode(batch)

        seconds = cpu_seconds(encode)
        yield f"{name}: {seconds / copy:.0f} x a copy ({ROWS / seconds / 1e6:.1f} M rows/s)"
