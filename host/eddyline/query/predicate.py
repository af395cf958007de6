"""A join predicate as a typed tree, and what it means for one pair of rows.

The tree knows only terms (a column plus a constant), constants and comparisons; BETWEEN, IN and
``abs(a - b)`` are written out in them. ``holds`` is the definition of the values of section 2 of
the semantics, in plain Python: exact rationals, floats rounded to their type, three-valued logic.
"""

import ctypes
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from eddyline.query.types import ColumnType

__all__ = [
    "And", "Compare", "Constant", "Difference", "IsNull", "Node", "Not", "Or", "Term", "Truth",
    "columns_of", "common_kind", "holds", "line_of", "positive", "round_to", "sides_of",
]  # fmt: skip

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """A column of one side plus a constant (nanoseconds on the time lines)."""

    side: str
    column: str
    type: ColumnType
    shift: Fraction = Fraction(0)

    def __str__(self) -> str:
        if not self.shift:
            return f"{self.side}.{self.column}"
        sign = "+" if self.shift > 0 else "-"
        return f"{self.side}.{self.column} {sign} {_number(abs(self.shift), self.type.line)}"


@dataclass(frozen=True)
class Constant:
    """A literal: a rational on the number line, nanoseconds on the time lines, or a string."""

    value: Fraction | str
    line: str

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return repr(self.value)
        return _number(self.value, self.line)


@dataclass(frozen=True)
class Compare:
    """``left op right``; unknown where either is NULL."""

    op: str
    left: Term | Constant
    right: Term | Constant

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class Difference:
    """``left - right op limit``, where at least one of them is a float, so that it rounds."""

    op: str
    left: Term
    right: Term
    limit: Fraction

    def __str__(self) -> str:
        return f"{self.left} - ({self.right}) {self.op} {_number(self.limit, 'number')}"


@dataclass(frozen=True)
class IsNull:
    """The column is NULL (or, with ``wanted`` false, is not)."""

    term: Term
    wanted: bool = True

    def __str__(self) -> str:
        return f"{self.term} IS {'' if self.wanted else 'NOT '}NULL"


@dataclass(frozen=True)
class Truth:
    """A constant: true, false or unknown (None)."""

    value: bool | None

    def __str__(self) -> str:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[self.value]


@dataclass(frozen=True)
class And:
    parts: tuple["Node", ...]

    def __str__(self) -> str:
        return " AND ".join(
            f"({part})" if isinstance(part, Or) else str(part) for part in self.parts
        )


@dataclass(frozen=True)
class Or:
    parts: tuple["Node", ...]

    def __str__(self) -> str:
        return " OR ".join(
            f"({part})" if isinstance(part, And) else str(part) for part in self.parts
        )


@dataclass(frozen=True)
class Not:
    part: "Node"


Node = Compare | Difference | IsNull | Truth | And | Or | Not


def line_of(operand: Term | Constant) -> str:
    return operand.type.line if isinstance(operand, Term) else operand.line


def round_to(kind: str, value: float | Fraction) -> float:
    """Round to the nearest number of a float type; beyond its range, to infinity."""
    try:
        value = float(value)
    except OverflowError:
        value = math.copysign(math.inf, value)
    return ctypes.c_float(value).value if kind == "float32" else value


def positive(node: Node, wanted: bool = True) -> Node:
    """Push every NOT down to the comparisons.

    What is left has no negation, so unknown may be read as false: a tree of AND and OR is true
    for the one exactly where it is true for the other.
    """
    match node:
        case Not(part):
            return positive(part, not wanted)
        case And(parts) | Or(parts):
            joint = type(node) if wanted else (Or if isinstance(node, And) else And)
            return joint(tuple(positive(part, wanted) for part in parts))
        case _ if wanted:
            return node
        case Compare(op) | Difference(op):
            return replace(node, op=NEGATED[op])
        case IsNull():
            return replace(node, wanted=not node.wanted)
        case Truth(value):
            return Truth(None if value is None else not value)
    raise AssertionError(node)


def sides_of(node: Node) -> set[str]:
    """Return which sides a condition reads."""
    return {operand.side for operand in _operands(node) if isinstance(operand, Term)}


def columns_of(node: Node, side: str) -> set[str]:
    """Return which columns of a side a condition reads."""
    return {
        operand.column
        for operand in _operands(node)
        if isinstance(operand, Term) and operand.side == side
    }


def _operands(node: Node) -> Iterator[Term | Constant]:
    match node:
        case Compare(_, left, right) | Difference(_, left, right):
            yield left
            yield right
        case IsNull(term):
            yield term
        case And(parts) | Or(parts):
            for part in parts:
                yield from _operands(part)
        case Not(part):
            yield from _operands(part)


def holds(node: Node, r: Mapping[str, Any], s: Mapping[str, Any]) -> bool | None:
    """Evaluate a predicate on one row of each side, given as raw values by column name.

    This is the definition; it is slow. True means the pair belongs to the result.
    """
    match node:
        case And(parts):
            found = [holds(part, r, s) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [holds(part, r, s) for part in parts]
            return True if True in found else None if None in found else False
        case Not(part):
            inner = holds(part, r, s)
            return None if inner is None else not inner
        case Truth(value):
            return value
        case IsNull(term, wanted):
            return (_row(term, r, s)[term.column] is None) == wanted
        case Compare(op, left, right):
            kind = common_kind(left, right)
            a, b = (_value(operand, kind, r, s) for operand in (left, right))
            return None if a is None or b is None else COMPARE[op](_key(a), _key(b))
        case Difference(op, left, right, limit):
            kind = common_kind(left, right)
            a, b = (_value(operand, kind, r, s) for operand in (left, right))
            if a is None or b is None:
                return None
            return COMPARE[op](_key(round_to(kind, a - b)), _key(round_to(kind, limit)))
    raise AssertionError(node)


def _row(term: Term, r: Mapping[str, Any], s: Mapping[str, Any]) -> Mapping[str, Any]:
    return r if term.side == "r" else s


def common_kind(left: Term | Constant, right: Term | Constant) -> str:
    """Return in which type two operands meet: a constant takes the type of the other."""
    kinds = {operand.type.kind for operand in (left, right) if isinstance(operand, Term)}
    if len(kinds) == 1:
        return kinds.pop()
    return "float64" if kinds else "exact"


def _value(operand: Term | Constant, kind: str, r: Mapping, s: Mapping) -> Any:
    if isinstance(operand, Constant):
        is_float = kind in ("float32", "float64")
        return round_to(kind, operand.value) if is_float else operand.value  # type: ignore[arg-type]
    raw = _row(operand, r, s)[operand.column]
    own = operand.type
    if raw is None or own.kind == "text":
        return raw
    if own.floating:
        return round_to(own.kind, raw + round_to(own.kind, operand.shift)) if operand.shift else raw
    exact = raw * own.unit + operand.shift
    return exact if kind == "exact" else round_to(kind, exact)


def _key(value: Any) -> Any:
    """Order floats with NaN last and equal to itself."""
    return (
        (math.isnan(value), 0 if math.isnan(value) else value)
        if isinstance(value, float)
        else value
    )


def _number(value: Fraction, line: str) -> str:
    if line in ("time", "time with zone", "duration"):
        seconds = value / 10**9
        return f"{float(seconds):g} s"
    return str(value) if value.denominator == 1 else f"{float(value):g}"
