"""Hashes of rows as Spark's ``xxhash64`` makes them, for columns of numbers.

Where Python has the rows, Java need not hash them; and both must agree on the order of rows that
have the same time.
"""

import numpy as np
import pyarrow as pa

from eddyline.query.types import raw_array

__all__ = ["hashable", "row_hashes"]

SEED = 42
P1, P2, P3, P4, P5 = (
    np.uint64(one)
    for one in (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)  # fmt: skip


def hashable(schema: pa.Schema) -> bool:
    """Say whether rows of these columns can be hashed here."""
    kinds = pa.types
    return all(
        kinds.is_boolean(one.type)
        or kinds.is_signed_integer(one.type)
        or kinds.is_float32(one.type)
        or kinds.is_float64(one.type)
        or kinds.is_date32(one.type)
        or (kinds.is_timestamp(one.type) and one.type.unit == "us")
        for one in schema
    )


def row_hashes(rows: pa.RecordBatch) -> np.ndarray:
    """Return ``xxhash64`` of all columns. A NULL leaves the hash as it is."""
    hashes = np.full(rows.num_rows, SEED, np.uint64)
    with np.errstate(over="ignore"):
        for column in rows.columns:
            raw, valid = raw_array(column)
            hashes = np.where(valid, _hashed(raw, hashes), hashes)
    return hashes.view(np.int64)


def _hashed(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Hash numbers of up to 32 bits as such, and wider ones as numbers of 64."""
    narrow = values.dtype.itemsize <= 4
    if values.dtype.kind == "f":
        # There is one zero and one NaN.
        values = np.where(np.isnan(values), np.nan, values + 0).astype(values.dtype)
        values = values.view(np.int32 if narrow else np.int64)
    bits = values.astype(np.int64).view(np.uint64)
    if narrow:
        hashes = seeds + P5 + np.uint64(4)
        hashes ^= (bits & np.uint64(0xFFFFFFFF)) * P1
        hashes = _turned(hashes, 23) * P2 + P3
    else:
        hashes = seeds + P5 + np.uint64(8)
        hashes ^= _turned(bits * P2, 31) * P1
        hashes = _turned(hashes, 27) * P1 + P4
    hashes = (hashes ^ hashes >> np.uint64(33)) * P2
    hashes = (hashes ^ hashes >> np.uint64(29)) * P3
    return hashes ^ hashes >> np.uint64(32)


def _turned(bits: np.ndarray, by: int) -> np.ndarray:
    return bits << np.uint64(by) | bits >> np.uint64(64 - by)
