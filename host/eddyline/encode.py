"""Arrow batches to records: every word by its recipe, every one-sided condition as a flag."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.dictionary import Dictionary
from eddyline.errors import DataError
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
    common_kind,
    round_to,
)
from eddyline.query.types import numbers, raw_array
from eddyline.words import (
    WORDS,
    Words,
    affine,
    exact_bound,
    float_bound,
    float_words,
    lift,
    searched_bound,
    value_words,
)

__all__ = ["SideEncoder"]


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
        always = 0  # bits of the words that all rows have
        for i, recipe in enumerate(self.recipes.words):
            words, valid = self._words(recipe, columns, first, records["time"])
            if not self.layout.words[i].optional and not valid.all():
                raise DataError(
                    f"column {self._side}.{recipe.term.column} is declared to have no NULLs and "
                    "has one: declare it nullable"
                )
            if valid.all():
                records[f"w{i}"] = words
                always |= 1 << i
            else:
                records[f"w{i}"] = np.where(valid, words, 0)
                records["valid"] |= valid.astype(np.uint64) << np.uint64(i)
        for i, node in enumerate(self.recipes.flags):
            bit = np.uint64(self.layout.flag_bit(i))
            records["valid"] |= holds(node, columns).astype(np.uint64) << bit
        records["valid"] |= np.uint64(always)
        return records

    def _words(self, recipe: Recipe, columns: "_Columns", first: int, times: np.ndarray) -> Words:
        match recipe:
            case Value(term) if term.type.kind == "text":
                return self._dictionary.encode(self._side, columns.batch[term.column], first, times)
            case Value(term):
                return value_words(term.type, *columns.raw(term.column))
            case ExactBound(term=term):
                return exact_bound(recipe, *columns.raw(term.column))
            case FloatBound(term, op, kind):
                return float_bound(op, columns.floats(term, kind), columns.valid(term.column))
            case SearchedBound(term, condition):
                against = columns.floats(term, common_kind(condition.left, condition.right))
                return searched_bound(condition, against, columns.valid(term.column))


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
        return numbers(self.batch[column].is_valid())

    def floats(self, operand: Term | Constant, kind: str) -> np.ndarray:
        """Evaluate an operand in a float type."""
        if isinstance(operand, Constant):
            return np.full(1, round_to(kind, operand.value), kind)  # type: ignore[arg-type]
        return lift(operand, self.raw(operand.column)[0], kind)

    def numerators(self, operand: Term | Constant, denominator: int) -> np.ndarray:
        """Evaluate an exact operand as integers over a common denominator."""
        if isinstance(operand, Constant):
            value = operand.value * denominator
            assert isinstance(value, Fraction)
            return np.array([int(value)], object)
        scale, offset = operand.type.unit * denominator, operand.shift * denominator
        return affine(self.raw(operand.column)[0], int(scale), int(offset))


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


def _denominator(operand: Term | Constant) -> int:
    """Return a number that makes an exact operand whole."""
    if isinstance(operand, Constant):
        return Fraction(operand.value).denominator
    return math.lcm(operand.type.unit.denominator, operand.shift.denominator)


def _compare(
    node: Node, op: str, left: Term | Constant, right: Term | Constant, columns: _Columns
) -> np.ndarray:
    kind = common_kind(left, right)
    if kind == "text":
        a, b = (
            columns.batch[operand.column].cast(pa.large_string())
            if isinstance(operand, Term)
            else pa.scalar(operand.value, pa.large_string())
            for operand in (left, right)
        )
        equal = numbers(pc.fill_null(pc.equal(a, b), False))
        return equal if op == "=" else ~equal
    if kind == "exact":
        d = math.lcm(*(_denominator(operand) for operand in (left, right)))
        a, b = columns.numerators(left, d), columns.numerators(right, d)
        return WORDS[op](a, b).astype(bool)
    a, b = columns.floats(left, kind), columns.floats(right, kind)
    if isinstance(node, Difference):
        with np.errstate(over="ignore", invalid="ignore"):
            a = a - b
        b = np.full(1, round_to(kind, node.limit), kind)
    return WORDS[op](float_words(a), float_words(b))
