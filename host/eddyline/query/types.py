"""What the columns of a predicate are made of: Arrow types seen as points on a line.

Every comparable type but strings is a line of points. Integers, booleans, decimals, dates and
timestamps are *exact*: a raw integer times a unit. Floats are a line of their own, with NaN as
its last point. Two columns can be compared when they lie on the same *line*.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from eddyline.errors import QueryError

__all__ = ["NANOSECONDS", "ColumnType", "column_type", "numbers", "raw_array", "raw_values"]

# Nanoseconds per tick of Arrow's units.
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9


@dataclass(frozen=True)
class ColumnType:
    """How the values of a column are laid on their line.

    ``line`` says what may be compared with what; ``kind`` is ``exact``, ``float32``, ``float64``
    or ``text``. An exact value is ``raw * unit`` with ``low <= raw <= high``: plain numbers on
    the number line, nanoseconds on the time lines. ``width`` is that of the column's word.
    """

    name: str
    line: str
    kind: str
    width: int
    unit: Fraction = Fraction(1)
    low: int = 0
    high: int = 0

    @property
    def floating(self) -> bool:
        return self.kind in ("float32", "float64")


def _exact(
    name: str, line: str, bits: int, *, signed: bool = True, unit: Fraction | int = 1
) -> ColumnType:
    low = -(1 << bits - 1) if signed else 0
    return ColumnType(name, line, "exact", bits, Fraction(unit), low, low + (1 << bits) - 1)


def column_type(type_: pa.DataType, place: str) -> ColumnType:
    """Return the line of an Arrow type; ``place`` names the column in the error."""
    name = str(type_)
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_integer(type_):
        return _exact(name, "number", type_.bit_width, signed=pa.types.is_signed_integer(type_))
    if pa.types.is_boolean(type_):
        return _exact(name, "truth", 1, signed=False)
    if pa.types.is_float32(type_) or pa.types.is_float64(type_):
        bits = type_.bit_width
        return ColumnType(name, "number", f"float{bits}", bits)
    if pa.types.is_date(type_):
        unit = DAY if pa.types.is_date32(type_) else NANOSECONDS["ms"]
        return _exact(name, "time", type_.bit_width, unit=unit)
    if pa.types.is_timestamp(type_):
        line = "time with zone" if type_.tz else "time"
        return _exact(name, line, 64, unit=NANOSECONDS[type_.unit])
    if pa.types.is_decimal(type_):
        if type_.precision > 18 or type_.scale < 0:
            raise QueryError(
                f"{place} is {name}; decimals up to 18 digits and scale 0 or more can be joined on"
            )
        return _decimal(name, type_.precision, type_.scale)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or _is_string_view(type_):
        return ColumnType(name, "text", "text", 32)
    if pa.types.is_null(type_):  # a column without a single value, as of an empty CSV file
        return ColumnType(name, "nothing", "nothing", 1)
    raise QueryError(
        f"{place} is {name}, which cannot be joined on; use integers, floats, booleans, dates, "
        "timestamps, decimals or strings"
    )


def _decimal(name: str, precision: int, scale: int) -> ColumnType:
    most = 10**precision - 1
    width = next(bits for bits in (8, 16, 32, 64) if most < 1 << bits - 1)
    return ColumnType(name, "number", "exact", width, Fraction(1, 10**scale), -most, most)


def _is_string_view(type_: pa.DataType) -> bool:
    return type_ == pa.string_view()


def numbers(column: pa.Array) -> np.ndarray:
    """Return a column without NULLs as an array; ``to_numpy`` would load pandas for nothing."""
    if pa.types.is_boolean(column.type):
        return np.from_dlpack(column.cast(pa.uint8())).view(bool)
    return np.from_dlpack(column)


def raw_array(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the raw numbers of a column and where they are valid. NULLs become zero."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    valid = numbers(column.is_valid()) if column.null_count else np.ones(len(column), bool)
    type_ = column.type
    if pa.types.is_decimal(type_):
        # 18 digits fit the low half of each 128-bit number.
        column = column.cast(pa.decimal128(type_.precision, type_.scale))
        halves = np.frombuffer(column.buffers()[1] or b"", dtype="<i8")
        raw = halves[2 * column.offset : 2 * (column.offset + len(column)) : 2]
        return np.where(valid, raw, 0), valid
    if pa.types.is_boolean(type_):
        column = column.cast(pa.uint8())
    elif pa.types.is_temporal(type_):
        column = column.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    if column.null_count:
        column = column.fill_null(0)
    return numbers(column), valid


def raw_values(column: pa.Array) -> list:
    """Return a column as Python numbers (or strings), raw as in :class:`ColumnType`, or None."""
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or _is_string_view(type_):
        return column.to_pylist()
    raw, valid = raw_array(column)
    return [value if ok else None for value, ok in zip(raw.tolist(), valid.tolist(), strict=True)]
