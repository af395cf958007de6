"""A typed predicate to comparisons of words, and the recipe of each word.

Every two-sided comparison becomes ``value <= bound``, ``value >= bound``, ``value = bound`` or
``value <> bound``: the value is a column as it is, the bound is the largest or smallest point of
that column's line that satisfies the comparison. So strict comparisons, arithmetic, mixed types
and overflow are settled when a row is encoded, and a device only ever compares unsigned words.
A condition on one side alone becomes a flag of that side.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from eddyline.errors import QueryError
from eddyline.plan import All, Any_, Flag, Layout, Predicate, Word
from eddyline.plan import Compare as CompareWords
from eddyline.query.predicate import (
    MIRRORED,
    And,
    Compare,
    Difference,
    Node,
    Or,
    Term,
    Truth,
    positive,
    sides_of,
)
from eddyline.query.types import ColumnType

__all__ = [
    "ExactBound",
    "FloatBound",
    "Lowering",
    "Recipe",
    "SearchedBound",
    "SideRecipes",
    "Value",
]

WORD_OPS = {"=": "eq", "<>": "ne", "<": "le", "<=": "le", ">": "ge", ">=": "ge"}
MIRRORED_WORDS = {"eq": "eq", "ne": "ne", "le": "ge", "ge": "le"}
# Validity bits and flags of a record share one 64-bit word.
MOST_BITS = 64


@dataclass(frozen=True)
class Value:
    """The column itself."""

    term: Term

    def __str__(self) -> str:
        return f"{self.term.column}"


@dataclass(frozen=True)
class ExactBound:
    """The point of the value's line next to ``(raw * p + q) / d``, on the side ``op`` asks for."""

    term: Term
    op: str
    value: ColumnType
    p: int
    q: int
    d: int

    def __str__(self) -> str:
        names = {"<": "below", "<=": "at most", "=": "exactly", ">=": "at least", ">": "above"}
        return f"{names[self.op]} {_plain(self.term)}, as {self.value.name}"


@dataclass(frozen=True)
class FloatBound:
    """The term in float type ``kind``, moved one step where ``op`` is strict."""

    term: Term
    op: str
    kind: str

    def __str__(self) -> str:
        step = {"<": "just below ", ">": "just above "}.get(self.op, "")
        return f"{step}{_plain(self.term)}, as {self.kind}"


@dataclass(frozen=True)
class SearchedBound:
    """The last (or first) point of the value's line for which ``condition`` holds.

    Rounding makes it impossible to solve for the value; but the condition is monotone in it, so
    a binary search over the line, evaluating what is written, finds the exact end.
    """

    term: Term
    condition: Compare | Difference

    def __str__(self) -> str:
        return f"end of {self.condition}"


Recipe = Value | ExactBound | FloatBound | SearchedBound


@dataclass
class SideRecipes:
    """Words and flags of one side, in the order of its layout."""

    schema: pa.Schema
    words: list[Recipe] = field(default_factory=list)
    flags: list[Node] = field(default_factory=list)

    def word(self, recipe: Recipe) -> int:
        return _index(self.words, recipe)

    def flag(self, node: Node) -> int:
        return _index(self.flags, node)

    @property
    def layout(self) -> Layout:
        words = tuple(self._word(i, recipe) for i, recipe in enumerate(self.words))
        return Layout(words, tuple(str(node) for node in self.flags))

    def _word(self, index: int, recipe: Recipe) -> Word:
        match recipe:
            case Value(term):
                width = term.type.width
            case ExactBound(value=value):
                width = value.width
            case FloatBound(kind=kind):
                width = 32 if kind == "float32" else 64
            case SearchedBound(condition=condition):
                width = _value_term(condition).type.width
        strict = isinstance(recipe, FloatBound) and recipe.op in ("<", ">")
        fails = strict or isinstance(recipe, ExactBound | SearchedBound)
        optional = fails or self.schema.field(recipe.term.column).nullable
        return Word(f"w{index}", width, optional, str(recipe))


@dataclass
class Lowering:
    """The recipes of both sides and the predicate over their words."""

    r: SideRecipes
    s: SideRecipes
    predicate: Predicate

    def side(self, side: str) -> SideRecipes:
        return self.r if side == "r" else self.s


def lower(node: Node, r: pa.Schema, s: pa.Schema) -> Lowering:
    """Lower a predicate."""
    lowering = Lowering(SideRecipes(r), SideRecipes(s), All(()))
    lowering.predicate = _Lowerer(lowering).node(positive(node))
    for side in ("r", "s"):
        recipes = lowering.side(side)
        if len(recipes.words) + len(recipes.flags) > MOST_BITS:
            raise QueryError(
                f"the predicate needs {len(recipes.words)} words and {len(recipes.flags)} flags of "
                f"stream {side}; {MOST_BITS} together is the most: split the query"
            )
    return lowering


class _Lowerer:
    def __init__(self, lowering: Lowering):
        self.lowering = lowering

    def node(self, node: Node) -> Predicate:
        match node:
            case Truth(value):
                return All(()) if value else Any_(())
            case And() | Or():
                return self.joint(node)
            case _ if len(sides_of(node)) == 1:
                (side,) = sides_of(node)
                return Flag(side, self.lowering.side(side).flag(node))
            case Compare(op, left, right):
                assert isinstance(left, Term)
                assert isinstance(right, Term)
                return self.compare(op, left, right)
            case Difference():
                return self.searched(node)
        raise AssertionError(node)

    def joint(self, node: And | Or) -> Predicate:
        kind = type(node)
        parts = list(_flattened(node))
        alone: dict[str, list[Node]] = {"r": [], "s": []}
        mixed: list[Node] = []
        for part in parts:
            sides = sides_of(part)
            (alone[sides.pop()] if len(sides) == 1 else mixed).append(part)
        lowered: list[Predicate] = [
            Flag(
                side,
                self.lowering.side(side).flag(some[0] if len(some) == 1 else kind(tuple(some))),
            )
            for side, some in alone.items()
            if some
        ]
        lowered += [self.node(part) for part in mixed]
        return _simplified(All if kind is And else Any_, lowered)

    def compare(self, op: str, left: Term, right: Term) -> Predicate:
        a, b = (left, right) if left.side == "r" else (right, left)
        op = op if left.side == "r" else MIRRORED[op]
        kinds = {a.type.kind, b.type.kind}
        if kinds == {"text"}:
            return self.words(op, a, Value(b))
        if kinds == {"exact"}:
            return self.exact(op, a, b)
        kind = kinds.pop() if len(kinds) == 1 else "float64"
        if _bare(a, kind):
            return self.rounded(op, a, b, kind)
        if _bare(b, kind):
            return self.rounded(MIRRORED[op], b, a, kind)
        return self.searched(Compare(op, a, b))

    def exact(self, op: str, a: Term, b: Term) -> Predicate:
        """Solve ``a op b`` for R's column: integers and rationals may be rearranged."""
        scale, offset = b.type.unit / a.type.unit, (b.shift - a.shift) / a.type.unit
        d = math.lcm(scale.denominator, offset.denominator)
        p, q = int(scale * d), int(offset * d)
        same = (a.type.low, a.type.high) == (b.type.low, b.type.high) and p == d and q == 0
        if same and op not in ("<", ">"):
            return self.words(op, a, Value(replace(b, shift=b.shift * 0)))
        if op == "<>":
            return Any_(tuple(self.exact(strict, a, b) for strict in ("<", ">")))
        return self.words(op, a, ExactBound(b, op, a.type, p, q, d))

    def rounded(self, op: str, value: Term, other: Term, kind: str) -> Predicate:
        if _bare(other, kind) and op not in ("<", ">"):
            return self.words(op, value, Value(other))
        if op == "<>":  # always a point of the line, so one word does
            return self.words(op, value, FloatBound(other, "=", kind))
        return self.words(op, value, FloatBound(other, op, kind))

    def searched(self, node: Compare | Difference) -> Predicate:
        if node.op in ("=", "<>"):
            joint, ops = (All, ("<=", ">=")) if node.op == "=" else (Any_, ("<", ">"))
            return joint(tuple(self.searched(replace(node, op=op)) for op in ops))
        other = node.right
        assert isinstance(other, Term)
        return self.words(node.op, _value_term(node), SearchedBound(other, node))

    def words(self, op: str, value: Term, bound: Recipe) -> Predicate:
        kept = self.lowering.side(value.side).word(Value(replace(value, shift=value.shift * 0)))
        other = self.lowering.side(bound.term.side).word(bound)
        if value.side == "r":
            return CompareWords(kept, WORD_OPS[op], other)
        return CompareWords(other, MIRRORED_WORDS[WORD_OPS[op]], kept)


def _value_term(condition: Compare | Difference) -> Term:
    assert isinstance(condition.left, Term)
    return condition.left


def _bare(term: Term, kind: str) -> bool:
    return term.type.kind == kind and not term.shift


def _flattened(node: And | Or) -> Sequence[Node]:
    parts: list[Node] = []
    for part in node.parts:
        parts += _flattened(part) if type(part) is type(node) else [part]
    return parts


def _simplified(kind: type[All] | type[Any_], parts: list[Predicate]) -> Predicate:
    """Drop what changes nothing: true in a conjunction, false in a disjunction."""
    neutral, deciding = (All(()), Any_(())) if kind is All else (Any_(()), All(()))
    flat: list[Predicate] = []
    for part in parts:
        if part == deciding:
            return deciding
        flat += part.parts if isinstance(part, kind) else [part]
    flat = list(dict.fromkeys(part for part in flat if part != neutral))
    if kind is All:
        flat = _with_equalities(flat)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _with_equalities(parts: list[Predicate]) -> list[Predicate]:
    """Write ``>=`` and ``<=`` of the same two words as ``=``, which an index serves better."""

    def equal(one: Predicate) -> Predicate:
        if not isinstance(one, CompareWords) or one.op not in ("ge", "le"):
            return one
        mirrored = CompareWords(one.r, "le" if one.op == "ge" else "ge", one.s)
        return CompareWords(one.r, "eq", one.s) if mirrored in parts else one

    return list(dict.fromkeys(map(equal, parts)))


def _index(items: list, item: object) -> int:
    if item not in items:
        items.append(item)
    return items.index(item)


def _plain(term: Term) -> str:
    return str(term).removeprefix(f"{term.side}.")
