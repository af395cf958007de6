"""The times of rows, in ticks of the join's clock."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from eddyline.clock import LATEST
from eddyline.errors import DataError
from eddyline.query import Query
from eddyline.query.types import raw_array

__all__ = ["has_time", "latest_time", "times_of"]


def times_of(
    query: Query, side: str, batch: pa.RecordBatch, place: Callable[[int], str]
) -> np.ndarray:
    """Return a batch's timestamps. ``place`` names a row of it, for errors.

    Raises
    ------
    DataError
        If a time is NULL or cannot be told in ticks of the join's clock.
    """
    assert query.time
    name = query.time[side == "s"]
    raw, valid = raw_array(batch[name])
    if not valid.all():
        raise DataError(f"{place(int(np.argmin(valid)))}, column {name!r}: the time is NULL")
    scale = _scale(query, side)
    most = (2**63 - 1) // scale
    too_far = (raw > most) | (raw < -most) if scale > 1 or raw.dtype == np.uint64 else None
    if too_far is not None and too_far.any():
        at = int(np.argmax(too_far))
        value = batch[name][at].as_py() if scale == 1 else raw[at]
        raise DataError(
            f"{place(at)}, column {name!r}: the time {value} is "
            "beyond 64 bits in the finer unit of the two time columns"
        )
    return raw.astype(np.int64) * scale


def has_time(query: Query, side: str, batch: pa.RecordBatch) -> np.ndarray:
    """Say which rows have a timestamp, or that none needs one."""
    if not query.time:
        return np.ones(batch.num_rows, bool)
    return raw_array(batch[query.time[side == "s"]])[1].copy()


def latest_time(query: Query, side: str, batch: pa.RecordBatch) -> int | None:
    """Return the latest timestamp, if any row has one. Where none needs one, time has no end."""
    if not query.time:
        return LATEST if batch.num_rows else None
    raw, valid = raw_array(batch[query.time[side == "s"]])
    if not valid.any():
        return None
    return min(int(raw[valid].max()) * _scale(query, side), LATEST)


def _scale(query: Query, side: str) -> int:
    """Return the ticks of the join's clock in one of a side's."""
    return int(query.time_type(side).unit / (query.tick or 1))
