"""Arrow columns to words, exactly.

A word is an unsigned integer that keeps the order of its line: integers are shifted to start at
zero, floats have their sign folded (NaN right after infinity, -0.0 as 0.0), strings are codes of
a dictionary. Bounds are computed as if integers were unbounded: in 64 bits where a batch's own
extremes show that nothing overflows, in Python integers otherwise.
"""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.dictionary import Dictionary
from eddyline.plan import Layout
from eddyline.query.lower import ExactBound, FloatBound, Recipe, SearchedBound, SideRecipes, Value
from eddyline.query.predicate import (
    And,
    Compare,
    Constant,
    Difference,
    IsNull,
    Node,
    Or,
    Term,
    Truth,
    round_to,
)
from eddyline.query.types import ColumnType, raw_array

__all__ = ["SideEncoder", "float_words", "words_to_floats"]

WORDS = {
    "=": np.equal, "<>": np.not_equal, "<": np.less,
    "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
INT64 = np.iinfo(np.int64)
Words = tuple[np.ndarray, np.ndarray]


class SideEncoder:
    """Turns batches of one side into records.

    Parameters
    ----------
    recipes : SideRecipes
        What the words and flags of this side are made of.
    dictionary : Dictionary
        Codes of the strings, shared by both sides.
    """

    def __init__(self, recipes: SideRecipes, dictionary: Dictionary, *, side: str):
        self.recipes = recipes
        self.layout: Layout = recipes.layout
        self.dtype = np.dtype(self.layout.fields)
        self._dictionary = dictionary
        self._side = side

    def encode(
        self, batch: pa.RecordBatch, *, first: int = 0, times: np.ndarray | None = None
    ) -> np.ndarray:
        """Return one record per row; ``first`` is the sequence number of the first row."""
        records = np.zeros(batch.num_rows, self.dtype)
        if times is not None:
            records["time"] = times
        records["id"] = np.arange(first, first + batch.num_rows, dtype=np.int64).astype(np.uint32)
        if not batch.num_rows:
            return records
        columns = _Columns(batch)
        for i, recipe in enumerate(self.recipes.words):
            words, valid = self._words(recipe, columns, first, records["time"])
            records[f"w{i}"] = np.where(valid, words, 0)
            records["valid"] |= valid.astype(np.uint64) << np.uint64(i)
        for i, node in enumerate(self.recipes.flags):
            bit = np.uint64(self.layout.flag_bit(i))
            records["valid"] |= holds(node, columns).astype(np.uint64) << bit
        return records

    def _words(self, recipe: Recipe, columns: "_Columns", first: int, times: np.ndarray) -> Words:
        match recipe:
            case Value(term) if term.type.kind == "text":
                return self._dictionary.encode(self._side, columns.batch[term.column], first, times)
            case Value(term):
                return _value_words(term.type, *columns.raw(term.column))
            case ExactBound(term=term):
                return _exact_bound(recipe, *columns.raw(term.column))
            case FloatBound(term, op, kind):
                return _float_bound(op, columns.floats(term, kind), columns.valid(term.column))
            case SearchedBound(term, condition):
                return _searched_bound(condition, columns, columns.valid(term.column))


class _Columns:
    """The columns of one batch as numbers, each converted once."""

    def __init__(self, batch: pa.RecordBatch):
        self.batch = batch
        self._raw: dict[str, Words] = {}

    def raw(self, column: str) -> Words:
        if column not in self._raw:
            self._raw[column] = raw_array(self.batch[column])
        return self._raw[column]

    def valid(self, column: str) -> np.ndarray:
        return self.batch[column].is_valid().to_numpy(zero_copy_only=False)

    def floats(self, operand: Term | Constant, kind: str) -> np.ndarray:
        """Evaluate an operand in a float type."""
        if isinstance(operand, Constant):
            return np.full(1, round_to(kind, operand.value), kind)  # type: ignore[arg-type]
        return _lift(operand, self.raw(operand.column)[0], kind)

    def numerators(self, operand: Term | Constant, denominator: int) -> np.ndarray:
        """Evaluate an exact operand as integers over a common denominator."""
        if isinstance(operand, Constant):
            value = operand.value * denominator
            assert isinstance(value, Fraction)
            return np.array([int(value)], object)
        scale, offset = operand.type.unit * denominator, operand.shift * denominator
        return _affine(self.raw(operand.column)[0], int(scale), int(offset))


def _affine(raw: np.ndarray, p: int, q: int) -> np.ndarray:
    """Return ``raw * p + q`` without overflow."""
    low, high = (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)
    # One step of room on either side: callers round up and down.
    reach = [x * p + q + step for x in (low, high) for step in (-1, 1)] + [low * p, high * p]
    fits = all(INT64.min < x < INT64.max for x in [*reach, low, high, p, q])
    return raw.astype(np.int64 if fits else object) * p + q


def _lift(term: Term, raw: np.ndarray, kind: str) -> np.ndarray:
    """Return ``term`` in a float type, rounded once (or, for a shifted float, as written)."""
    if term.type.floating:
        with np.errstate(over="ignore", invalid="ignore"):
            if term.shift:
                own = np.dtype(term.type.kind).type
                raw = raw + own(round_to(term.type.kind, term.shift))
            return raw.astype(kind)
    scale, shift = term.type.unit, term.shift
    d = np.lcm.reduce([scale.denominator, shift.denominator], dtype=object)
    n = _affine(raw, int(scale * d), int(shift * d))
    if d == 1 and n.dtype != object:
        return n.astype(np.float64)
    if n.dtype != object and d < 2**53 and np.abs(n).max(initial=0) < 2**53:
        return n / np.float64(d)  # both are exact, so the quotient is rounded once
    return np.array([int(x) / int(d) for x in n], np.float64)  # Python divides integers exactly


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


def _value_words(type_: ColumnType, raw: np.ndarray, valid: np.ndarray) -> Words:
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


def _exact_bound(recipe: ExactBound, raw: np.ndarray, valid: np.ndarray) -> Words:
    n, d = _affine(raw, recipe.p, recipe.q), recipe.d
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


def _float_bound(op: str, values: np.ndarray, valid: np.ndarray) -> Words:
    words = float_words(values)
    first, last = _float_ends(values.dtype)
    if op == "<":
        return words - words.dtype.type(1), valid & (words > first)
    if op == ">":
        return words + words.dtype.type(1), valid & (words < last)
    return words, valid


def _searched_bound(condition: Compare | Difference, columns: _Columns, valid: np.ndarray) -> Words:
    value, other = condition.left, condition.right
    assert isinstance(value, Term)
    assert isinstance(other, Term)
    kinds = {value.type.kind, other.type.kind}
    kind = kinds.pop() if len(kinds) == 1 else "float64"
    against = columns.floats(other, kind)
    compare = WORDS[condition.op]

    def satisfied(words: np.ndarray) -> np.ndarray:
        if value.type.floating:
            raw = words_to_floats(words, value.type.kind)
        elif value.type.high > INT64.max:
            raw = words
        else:
            raw = (words + np.uint64(value.type.low % 2**64)).view(np.int64)
        lifted = _lift(value, raw, kind)
        if isinstance(condition, Compare):
            return compare(float_words(lifted), float_words(against))
        with np.errstate(over="ignore", invalid="ignore"):
            gap = lifted - against
        return compare(
            float_words(gap), float_words(np.full(1, round_to(kind, condition.limit), kind))
        )

    if value.type.floating:
        first, last = _float_ends(np.dtype(value.type.kind))
    else:
        first, last = 0, value.type.high - value.type.low
    low = np.full(len(against), first, np.uint64)
    high = np.full(len(against), last, np.uint64)
    one = np.uint64(1)
    growing = condition.op in (">", ">=")  # true from some point on, not up to it
    met = satisfied(high if growing else low)
    while (low < high).any():
        gap = high - low
        middle = low + (gap >> one) if growing else high - (gap >> one)
        found = satisfied(middle) | ~met  # where no point satisfies it, only come to an end
        if growing:
            low, high = np.where(found, low, middle + one), np.where(found, middle, high)
        else:
            low, high = np.where(found, middle, low), np.where(found, high, middle - one)
    return low, valid & met


def holds(node: Node, columns: _Columns) -> np.ndarray:
    """Evaluate a condition on one side; unknown counts as false."""
    rows = columns.batch.num_rows
    match node:
        case And(parts):
            return np.logical_and.reduce([holds(part, columns) for part in parts])
        case Or(parts):
            return np.logical_or.reduce([holds(part, columns) for part in parts])
        case Truth(value):
            return np.full(rows, bool(value))
        case IsNull(term, wanted):
            return columns.valid(term.column) != wanted
        case Compare(op, left, right) | Difference(op, left, right):
            valid = np.ones(rows, bool)
            for operand in (left, right):
                if isinstance(operand, Term):
                    valid &= columns.valid(operand.column)
            return valid & _compare(node, op, left, right, columns)
    raise AssertionError(node)


def _compare(
    node: Node, op: str, left: Term | Constant, right: Term | Constant, columns: _Columns
) -> np.ndarray:
    kinds = {operand.type.kind for operand in (left, right) if isinstance(operand, Term)}
    kind = kinds.pop() if len(kinds) == 1 else "float64"
    if kind == "text":
        a, b = (
            columns.batch[operand.column].cast(pa.large_string())
            if isinstance(operand, Term)
            else pa.scalar(operand.value, pa.large_string())
            for operand in (left, right)
        )
        equal = pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False)
        return equal if op == "=" else ~equal
    if kind == "exact":
        parts = [
            part
            for operand in (left, right)
            for part in (
                (operand.value,)
                if isinstance(operand, Constant)
                else (operand.type.unit, operand.shift)
            )
        ]
        d = int(np.lcm.reduce([Fraction(part).denominator for part in parts], dtype=object))
        a, b = columns.numerators(left, d), columns.numerators(right, d)
        return WORDS[op](a, b).astype(bool)
    a, b = columns.floats(left, kind), columns.floats(right, kind)
    if isinstance(node, Difference):
        with np.errstate(over="ignore", invalid="ignore"):
            a = a - b
        b = np.full(1, round_to(kind, node.limit), kind)
    return WORDS[op](float_words(a), float_words(b))
