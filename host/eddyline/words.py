"""Words and bounds: numbers to order-preserving unsigned integers, exactly.

Integers are shifted to start at zero; floats have their sign folded, with NaN right after infinity
and -0.0 as 0.0. Bounds are computed as if integers were unbounded: in 64 bits where a batch's own
extremes show that nothing overflows, in Python integers otherwise.
"""

import math
from collections.abc import Callable

import numpy as np

from eddyline.query.lower import ExactBound
from eddyline.query.predicate import Compare, Difference, Term, common_kind, round_to
from eddyline.query.types import ColumnType

__all__ = [
    "Words", "affine", "exact_bound", "float_bound", "float_words", "lift", "searched_bound",
    "value_words", "words_to_floats",
]  # fmt: skip

WORDS = {
    "=": np.equal, "<>": np.not_equal, "<": np.less,
    "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
INT64 = np.iinfo(np.int64)
# Words, and where they are valid.
Words = tuple[np.ndarray, np.ndarray]
# Steps around a guess within which the end of a condition is looked for first.
NEAR = 4


def affine(raw: np.ndarray, p: int, q: int) -> np.ndarray:
    """Return ``raw * p + q`` without overflow."""
    low, high = (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)
    # One step of room on either side: callers round up and down.
    reach = [x * p + q + step for x in (low, high) for step in (-1, 1)] + [low * p, high * p]
    fits = all(INT64.min < x < INT64.max for x in [*reach, low, high, p, q])
    return raw.astype(np.int64 if fits else object) * p + q


def lift(term: Term, raw: np.ndarray, kind: str) -> np.ndarray:
    """Return ``term`` in a float type, rounded once (or, for a shifted float, as written)."""
    if term.type.floating:
        with np.errstate(over="ignore", invalid="ignore"):
            if term.shift:
                own = np.dtype(term.type.kind).type
                raw = raw + own(round_to(term.type.kind, term.shift))
            return raw.astype(kind)
    scale, shift = term.type.unit, term.shift
    d = math.lcm(scale.denominator, shift.denominator)
    n = affine(raw, int(scale * d), int(shift * d))
    if d == 1 and n.dtype != object:
        return n.astype(np.float64)
    if n.dtype != object and d < 2**53 and np.abs(n).max(initial=0) < 2**53:
        return n / np.float64(d)  # both are exact, so the quotient is rounded once
    return np.array([int(x) / d for x in n], np.float64)  # Python divides integers exactly


def float_words(values: np.ndarray) -> np.ndarray:
    """Map floats to unsigned words of their width, in order: -inf .. inf, NaN."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    bits = (values + values.dtype.type(0)).view(unsigned)
    top = unsigned.type(1 << 8 * unsigned.itemsize - 1)
    words = np.where(bits & top, ~bits, bits | top)
    return np.where(np.isnan(values), _nan_word(values.dtype), words)


def words_to_floats(words: np.ndarray, kind: str) -> np.ndarray:
    """Undo :func:`float_words`."""
    dtype = np.dtype(kind)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    words = words.astype(unsigned)
    top = unsigned.type(1 << 8 * unsigned.itemsize - 1)
    values = np.where(words & top, words ^ top, ~words).astype(unsigned).view(dtype)
    return np.where(words >= _nan_word(dtype), dtype.type(np.nan), values)


def _nan_word(dtype: np.dtype) -> int:
    infinity = np.array([np.inf], dtype).view(f"u{dtype.itemsize}")[0]
    return int(infinity) + (1 << 8 * dtype.itemsize - 1) + 1


def _float_ends(dtype: np.dtype) -> tuple[int, int]:
    """Return the words of -inf and of NaN."""
    nan = _nan_word(dtype)
    return (1 << 8 * dtype.itemsize) - nan, nan


def value_words(type_: ColumnType, raw: np.ndarray, valid: np.ndarray) -> Words:
    if type_.floating:
        return float_words(raw), valid
    return _offset(raw, type_.low), valid


def _offset(raw: np.ndarray, low: int) -> np.ndarray:
    """Return ``raw - low``, modulo 2^64: exact, because the true difference is in range."""
    if raw.dtype == object:
        return (raw - low).astype(np.uint64)
    return raw.astype(np.int64 if raw.dtype.kind == "i" else np.uint64).view(np.uint64) - np.uint64(
        low % 2**64
    )


def exact_bound(recipe: ExactBound, raw: np.ndarray, valid: np.ndarray) -> Words:
    n, d = affine(raw, recipe.p, recipe.q), recipe.d
    low, high = recipe.value.low, recipe.value.high
    floor, ceil = n // d, -(-n // d)
    match recipe.op:
        case "<" | "<=":
            bound = floor if recipe.op == "<=" else ceil - 1
            valid = valid & (bound >= low)
        case ">" | ">=":
            bound = ceil if recipe.op == ">=" else floor + 1
            valid = valid & (bound <= high)
        case "=":
            bound = floor
            valid = valid & (floor == ceil) & (bound >= low) & (bound <= high)
    bound = np.clip(bound, low, high if bound.dtype == object else min(high, INT64.max))
    return _offset(bound, low), valid.astype(bool)


def float_bound(op: str, values: np.ndarray, valid: np.ndarray) -> Words:
    words = float_words(values)
    first, last = _float_ends(values.dtype)
    if op == "<":
        return words - words.dtype.type(1), valid & (words > first)
    if op == ">":
        return words + words.dtype.type(1), valid & (words < last)
    return words, valid


def searched_bound(
    condition: Compare | Difference, against: np.ndarray, valid: np.ndarray
) -> Words:
    """Find the last (or first) word of the value for which a condition holds.

    ``against`` is the other operand, in the float type in which the two meet.
    """
    value = condition.left
    assert isinstance(value, Term)
    kind = common_kind(condition.left, condition.right)
    limit = condition.limit if isinstance(condition, Difference) else None
    compare = WORDS[condition.op]

    def satisfied(words: np.ndarray, rows: np.ndarray) -> np.ndarray:
        lifted = lift(value, _raw_of(value.type, words), kind)
        if limit is None:
            return compare(float_words(lifted), float_words(against[rows]))
        with np.errstate(over="ignore", invalid="ignore"):
            gap = lifted - against[rows]
        return compare(float_words(gap), float_words(np.full(1, round_to(kind, limit), kind)))

    first, last = _ends(value.type)
    low = np.full(len(against), first, np.uint64)
    high = np.full(len(against), last, np.uint64)
    growing = condition.op in (">", ">=")  # true from some point on, not up to it
    everything = np.arange(len(against))
    met = satisfied(high if growing else low, everything)
    if value.type.floating:  # solved in double precision, the end is a step or two away
        with np.errstate(over="ignore", invalid="ignore"):
            guess = against.astype(np.float64) + float(limit or 0) - float(value.shift)
            middle = float_words(guess.astype(value.type.kind)).astype(np.uint64)
        near_low = np.maximum(middle, first + NEAR) - np.uint64(NEAR)
        near_high = np.minimum(middle, last - NEAR) + np.uint64(NEAR)
        edges = satisfied(near_low, everything), satisfied(near_high, everything)
        hit = (~edges[0] & edges[1]) if growing else (edges[0] & ~edges[1])
        low, high = np.where(hit, near_low, low), np.where(hit, near_high, high)
    return _bisect(satisfied, low, high, met, growing=growing), valid & met


def _bisect(
    satisfied: Callable[[np.ndarray, np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    met: np.ndarray,
    *,
    growing: bool,
) -> np.ndarray:
    """Narrow every row down to one word; where nothing satisfies it, to any word."""
    one = np.uint64(1)
    while len(rows := np.flatnonzero(low < high)):
        a, b = low[rows], high[rows]
        middle = a + (b - a >> one) if growing else b - (b - a >> one)
        found = satisfied(middle, rows) | ~met[rows]
        if growing:
            low[rows], high[rows] = np.where(found, a, middle + one), np.where(found, middle, b)
        else:
            low[rows], high[rows] = np.where(found, middle, a), np.where(found, b, middle - one)
    return low


def _raw_of(type_: ColumnType, words: np.ndarray) -> np.ndarray:
    """Undo :func:`value_words`."""
    if type_.floating:
        return words_to_floats(words, type_.kind)
    if type_.high > INT64.max:
        return words
    return (words + np.uint64(type_.low % 2**64)).view(np.int64)


def _ends(type_: ColumnType) -> tuple[int, int]:
    """Return the first and last word of a type's line."""
    if type_.floating:
        return _float_ends(np.dtype(type_.kind))
    return 0, type_.high - type_.low
