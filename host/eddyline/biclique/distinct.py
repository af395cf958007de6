"""Duplicate elimination within a window (BiStream, section 3.4.1).

A result is left out if an equal one was handed over at most a window before it, by the results'
own times. So every value comes at most once in any window, and what is left out has been told not
longer than a window ago.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.clock import earlier
from eddyline.errors import QueryError
from eddyline.plan import Window

__all__ = ["firsts", "require_comparable", "values"]


def require_comparable(schema: pa.Schema, columns: list[str]) -> None:
    """Refuse columns whose values cannot be told apart.

    Raises
    ------
    QueryError
        If there is no column, or one of a nested type.
    """
    if not columns:
        raise QueryError("distinct needs a result column besides the time of the result")
    for name in columns:
        try:
            _codes(pa.nulls(0, schema.field(name).type))
        except pa.ArrowNotImplementedError:
            raise QueryError(
                f"column {name!r} is {schema.field(name).type}, whose values distinct cannot "
                "compare: leave it out with select"
            ) from None


def values(rows: pa.RecordBatch, columns: list[str]) -> np.ndarray:
    """Return a number per row, the same for rows that are equal in all columns.

    As in SQL's DISTINCT, a NULL equals a NULL; a NaN equals a NaN, and -0.0 equals 0.0.
    """
    numbers = np.zeros(rows.num_rows, np.int64)
    for name in columns:
        codes = _codes(rows[name])
        _, numbers = np.unique(numbers * (codes.max(initial=0) + 1) + codes, return_inverse=True)
    return numbers


def firsts(values: np.ndarray, times: np.ndarray, window: Window) -> np.ndarray:
    """Say which rows are handed over: those without an equal one in the window before them."""
    kept = np.zeros(len(values), bool)
    waiting = np.lexsort((times, values))
    bounds = earlier(times, window.size) if window.kind == "time" else None
    last = np.zeros(values.max(initial=-1) + 1, np.int64)
    while len(waiting):
        mine = values[waiting]
        chosen = waiting[np.flatnonzero(np.diff(mine, prepend=-1))]
        kept[chosen] = True
        if bounds is None:
            break
        last[values[chosen]] = times[chosen]
        waiting = waiting[bounds[waiting] > last[mine]]
    return kept


def _codes(column: pa.Array) -> np.ndarray:
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), float("nan"), pc.add(column, 0.0).cast(column.type))
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode(null_encoding="encode")
    return column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
