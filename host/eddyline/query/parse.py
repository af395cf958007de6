"""SQL text to a typed predicate. sqlglot parses; this module gives names and types a meaning."""

import datetime
import difflib
import re
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from eddyline.errors import QueryError
from eddyline.query.predicate import (
    COMPARE,
    MIRRORED,
    And,
    Compare,
    Constant,
    Difference,
    IsNull,
    Node,
    Not,
    Or,
    Term,
    Truth,
    line_of,
)
from eddyline.query.types import DAY, NANOSECONDS, column_type

__all__ = ["Names", "matching", "parse_predicate", "parse_sql"]

COMPARISONS: dict[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
TIME_LINES = ("time", "time with zone")
INTERVALS = {
    "nanosecond": 1, "microsecond": 10**3, "millisecond": 10**6, "second": 10**9,
    "minute": 60 * 10**9, "hour": 3600 * 10**9, "day": DAY, "week": 7 * DAY,
}  # fmt: skip
MOST_EXPONENT = 400
ACCEPTED = (
    "a predicate is made of = <> < <= > >=, BETWEEN, IN, IS NULL, AND, OR, NOT and "
    "abs(a - b) <= c over columns, columns plus or minus a constant, and literals"
)


class _Sql(DuckDB):
    """DuckDB's SQL, in which names may also be quoted as Spark does: r.`when`."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]


class Names:
    """Finds columns of ``r`` and ``s`` by the names people write.

    Case matters only where names differ in nothing else, and with ``any_case`` not even between the
    two sides.
    """

    def __init__(self, r: pa.Schema, s: pa.Schema, *, any_case: bool = False):
        self.schemas = {"r": r, "s": s}
        self.any_case = any_case

    def same(self, name: str) -> str:
        """Return what names that count as one have in common."""
        return name.lower() if self.any_case else name

    def find(self, column: exp.Column) -> tuple[str, str]:
        """Return side and column name.

        Raises
        ------
        QueryError
            If there is no such column, or several.
        """
        side = column.table.lower()
        if side not in ("", "r", "s"):
            raise QueryError(f"no stream called {column.table!r} in {column.sql()!r} (r or s)")
        sides = [side] if side else ["r", "s"]
        found = [(one, column.name) for one in sides if column.name in self.schemas[one].names]
        if not found or self.any_case:
            found = [
                (one, name)
                for one in sides
                for name in matching(self.schemas[one].names, column.name)
            ]
        if len(found) > 1:
            options = " or ".join(f"{one}.{name}" for one, name in found)
            raise QueryError(f"column {column.name!r} is ambiguous: write {options}")
        if not found:
            raise QueryError(self._unknown(column, sides))
        return found[0]

    def _unknown(self, column: exp.Column, sides: list[str]) -> str:
        known = [f"{one}.{name}" for one in sides for name in self.schemas[one].names]
        near = difflib.get_close_matches(f"{column.table or 'r'}.{column.name}", known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"no column {column.sql()!r}{hint} (there are: {', '.join(known) or 'none'})"


def matching(names: list[str], name: str) -> list[str]:
    """Return the column of this name or, if there is none, those that differ only in case."""
    return [name] if name in names else [one for one in names if one.lower() == name.lower()]


def parse_sql(text: str, what: str, *, prefix: str = "") -> exp.Expr:
    """Parse one SQL expression (after ``prefix``), or say where it goes wrong."""
    if not isinstance(text, str):
        raise QueryError(f"the {what} {text!r} is no text: write it in SQL")
    if not text.strip():
        raise QueryError(f"the {what} is empty")
    try:
        return sqlglot.parse_one(prefix + text, dialect=_Sql)
    except SqlglotError as error:
        (first, *_) = getattr(error, "errors", None) or [{}]
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        reason = first.get("description", str(error)).rstrip(".")
        if " missing for " in reason:  # sqlglot names its own classes here
            reason = "something is missing"
        raise QueryError(
            f"cannot parse the {what} {text!r}{near}: {reason} "
            '(a column called like an SQL word needs quotes: r."when")'
        ) from None


def parse_predicate(text: str, names: Names) -> Node:
    """Return the typed tree of a predicate over streams ``r`` and ``s``."""
    return _Binder(names).condition(parse_sql(text, "predicate"))


class _Binder:
    def __init__(self, names: Names):
        self.names = names

    def condition(self, node: exp.Expr) -> Node:
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And() | exp.Or():
                joint = And if isinstance(node, exp.And) else Or
                return joint(tuple(self.condition(part) for part in node.flatten()))
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.Boolean():
                return Truth(bool(node.this))
            case exp.Null():
                return Truth(None)
            case exp.Between() if not node.args.get("symmetric"):
                low = self.compare(">=", node.this, node.args["low"], node)
                return And((low, self.compare("<=", node.this, node.args["high"], node)))
            case exp.In() if node.expressions:
                options = (self.compare("=", node.this, one, node) for one in node.expressions)
                return Or(tuple(options))
            case exp.Is() if isinstance(node.expression, exp.Null):
                term = self.operand(node.this, node)
                if isinstance(term, Term):
                    return IsNull(term)
            case exp.Column():
                term = self.operand(node, node)
                if line_of(term) == "truth":
                    return Compare("=", term, Constant(Fraction(1), "truth"))
                if line_of(term) == "nothing":
                    return Truth(None)
                raise QueryError(f"{_described(term)} is not a condition")
            case _ if type(node) in COMPARISONS:
                return self.compare(COMPARISONS[type(node)], node.this, node.expression, node)
        raise QueryError(f"{node.sql()!r} is not supported: {ACCEPTED}")

    def compare(self, op: str, left: exp.Expr, right: exp.Expr, whole: exp.Expr) -> Node:
        for one, other, oriented in ((left, right, op), (right, left, MIRRORED[op])):
            one = one.unnest()
            if isinstance(one, exp.Abs) or (
                isinstance(one, exp.Sub)
                and one.expression.find(exp.Column)
                and one.this.find(exp.Column)
            ):
                return self.distance(oriented, one, other, whole)
        if isinstance(left.unnest(), exp.Null) or isinstance(right.unnest(), exp.Null):
            return Truth(None)
        return self.comparison(op, self.operand(left, whole), self.operand(right, whole), whole)

    def comparison(self, op: str, a: Term | Constant, b: Term | Constant, whole: exp.Expr) -> Node:
        if "nothing" in (line_of(a), line_of(b)):
            return Truth(None)
        a, b = self.adapt(a, b, whole), self.adapt(b, a, whole)
        if line_of(a) != line_of(b):
            raise QueryError(
                f"cannot compare {_described(a)} with {_described(b)} in {whole.sql()!r}"
            )
        if line_of(a) == "text" and op not in ("=", "<>"):
            raise QueryError(f"strings compare only with =, <> and IN, not as in {whole.sql()!r}")
        if isinstance(a, Constant) and isinstance(b, Constant):
            return Truth(COMPARE[op](a.value, b.value))
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Constant) and isinstance(other, Term):
                _require_finite(one.value, other, whole)
        return Compare(op, a, b)

    def distance(self, op: str, node: exp.Expr, limit: exp.Expr, whole: exp.Expr) -> Node:
        """Write out ``abs(a - b) op c`` and ``a - b op c``."""
        absolute = isinstance(node, exp.Abs)
        inner = node.this.unnest() if absolute else node
        bound = self.operand(limit, whole)
        if not isinstance(inner, exp.Sub) or not isinstance(bound, Constant):
            raise QueryError(f"{whole.sql()!r} is not supported: {ACCEPTED}")
        a, b = self.operand(inner.this, whole), self.operand(inner.expression, whole)
        if isinstance(a, Constant) or isinstance(b, Constant):
            raise QueryError(f"{whole.sql()!r} is not supported: write it without abs")
        if "nothing" in (line_of(a), line_of(b)):
            return Truth(None)
        wanted = "duration" if line_of(a) in TIME_LINES else "number"
        if line_of(a) != line_of(b) or line_of(a) in ("text", "truth") or bound.line != wanted:
            raise QueryError(
                f"cannot compare the distance of {_described(a)} and {_described(b)} with "
                f"{_described(bound)} in {whole.sql()!r}"
            )
        assert isinstance(bound.value, Fraction)
        up = self.difference(op, a, b, bound.value, whole)
        if not absolute:
            return up
        down = self.difference(MIRRORED[op], a, b, -bound.value, whole)
        # |d| <= c is d <= c and d >= -c; the negations and NaN (last in order) follow from that.
        if op in ("<", "<="):
            return And((up, down))
        if op in (">", ">="):
            return Or((up, down))
        within = And(
            (
                self.difference("<=", a, b, bound.value, whole),
                self.difference(">=", a, b, -bound.value, whole),
            )
        )
        beyond = Or(
            (
                self.difference(">=", a, b, bound.value, whole),
                self.difference("<=", a, b, -bound.value, whole),
            )
        )
        equal = And((within, beyond))
        return equal if op == "=" else Not(equal)

    def difference(self, op: str, a: Term, b: Term, limit: Fraction, whole: exp.Expr) -> Node:
        if a.type.kind == b.type.kind == "exact":  # exact arithmetic may be rearranged
            return Compare(op, a, replace(b, shift=b.shift + limit))
        for term in (a, b):
            _require_finite(limit, term, whole)
        return Difference(op, a, b, limit)

    def adapt(
        self, one: Term | Constant, other: Term | Constant, whole: exp.Expr
    ) -> Term | Constant:
        """Read a string literal as a date or timestamp where it meets one."""
        if isinstance(one, Constant) and one.line == "text" and line_of(other) in TIME_LINES:
            return _moment(str(one.value), line_of(other), whole)
        if isinstance(one, Constant) and one.line == "time" and line_of(other) == "time with zone":
            return replace(one, line="time with zone")
        return one

    def operand(self, node: exp.Expr, whole: exp.Expr) -> Term | Constant:
        node = node.unnest()
        match node:
            case exp.Column():
                side, name = self.names.find(node)
                place = f"column {side}.{name}"
                return Term(
                    side, name, column_type(self.names.schemas[side].field(name).type, place)
                )
            case exp.Literal() if node.is_string:
                return Constant(node.this, "text")
            case exp.Literal():
                return Constant(_rational(node.this, whole), "number")
            case exp.Boolean():
                return Constant(Fraction(int(node.this)), "truth")
            case exp.Neg():
                inner = self.operand(node.this, whole)
                if isinstance(inner, Constant) and isinstance(inner.value, Fraction):
                    return replace(inner, value=-inner.value)
            case exp.Interval():
                return _interval(node)
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.this.is_string:
                if node.to.is_type("date", "timestamp", "timestampntz", "timestamptz"):
                    zoned = node.to.is_type("timestamptz")
                    moment = _moment(node.this.this, TIME_LINES[zoned], whole)
                    if node.to.is_type("date"):
                        assert isinstance(moment.value, Fraction)
                        return replace(moment, value=moment.value // DAY * Fraction(DAY))
                    return moment
            case exp.Add() | exp.Sub():
                return self.shifted(node, whole)
        raise QueryError(f"{node.sql()!r} in {whole.sql()!r} is not supported: {ACCEPTED}")

    def shifted(self, node: exp.Expr, whole: exp.Expr) -> Term | Constant:
        a, b = self.operand(node.this, whole), self.operand(node.expression, whole)
        if isinstance(a, Constant) and isinstance(node, exp.Add):
            a, b = b, a
        if isinstance(b, Term):
            raise QueryError(
                f"{node.sql()!r} is not supported: write column plus or minus constant"
            )
        if line_of(a) == "nothing":
            return a
        sign = 1 if isinstance(node, exp.Add) else -1
        days = isinstance(a, Term) and a.type.name.startswith("date") and b.line == "number"
        wanted = "duration" if line_of(a) in TIME_LINES and not days else "number"
        if b.line != wanted or line_of(a) in ("text", "truth"):
            raise QueryError(f"cannot add {_described(b)} to {_described(a)} in {whole.sql()!r}")
        assert isinstance(b.value, Fraction)
        amount = sign * b.value * (DAY if days else 1)
        if isinstance(a, Constant):
            return replace(a, value=a.value + amount)  # type: ignore[operator]
        if a.type.floating and a.shift:
            raise QueryError(
                f"{node.sql()!r} rounds twice: write one constant, {a.side}.{a.column} + c"
            )
        _require_finite(amount, a, whole)
        return replace(a, shift=a.shift + amount)


def _require_finite(value: Fraction | str, term: Term, whole: exp.Expr) -> None:
    largest = {"float32": Fraction(2**24 - 1) * 2**104, "float64": Fraction(2**53 - 1) * 2**971}
    limit = largest.get(term.type.kind)
    if limit is not None and isinstance(value, Fraction) and abs(value) > limit:
        raise QueryError(
            f"the constant {float(value):g} in {whole.sql()!r} does not fit {term.type.name} "
            f"of {term.side}.{term.column}"
            if abs(value) <= largest["float64"]
            else f"a constant in {whole.sql()!r} does not fit {term.type.name}"
        )


def _described(operand: Term | Constant) -> str:
    if isinstance(operand, Term):
        return f"{operand.side}.{operand.column} ({operand.type.name})"
    names = {"text": "the string", "number": "the number", "duration": "the interval"}
    return f"{names.get(operand.line, 'the constant')} {operand}"


def _moment(text: str, line: str, whole: exp.Expr) -> Constant:
    """Read an ISO date or time to the nanosecond."""
    head, dot, tail = text.strip().replace(",", ".").partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    zone = tail[len(digits) :]
    try:
        moment = datetime.datetime.fromisoformat(head + zone)
    except ValueError:
        raise QueryError(
            f"{text!r} in {whole.sql()!r} is not a date or timestamp (such as 2026-01-31 08:00:00)"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    elif line == "time":
        raise QueryError(f"{text!r} has a time zone, the column in {whole.sql()!r} has none")
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    seconds = since.days * 86_400 + since.seconds
    nanoseconds = int((digits + "0" * 9)[:9]) if dot else 0
    return Constant(Fraction(seconds * NANOSECONDS["s"] + nanoseconds), line)


def _interval(node: exp.Interval) -> Constant:
    unit = (node.unit.name if node.unit else "").lower().rstrip("s")
    if unit not in INTERVALS:
        raise QueryError(f"{node.sql()!r} has no fixed length: use one of {', '.join(INTERVALS)}")
    amount, sign = node.this.unnest(), 1
    if isinstance(amount, exp.Neg):
        amount, sign = amount.this.unnest(), -1
    if not isinstance(amount, exp.Literal):
        raise QueryError(f"{node.sql()!r} is not a number of {unit}s: write INTERVAL '5' {unit}")
    return Constant(sign * _rational(amount.name, node) * INTERVALS[unit], "duration")


def _rational(text: str, whole: exp.Expr) -> Fraction:
    """Read a literal exactly. Exponents beyond those of a double would only cost memory."""
    match = re.fullmatch(r"-?(?:\d+\.?\d*|\.\d+)(?:e([+-]?\d{1,4}))?", text.strip(), re.IGNORECASE)
    if not match or abs(int(match[1] or 0)) > MOST_EXPONENT or len(text) > MOST_EXPONENT:
        raise QueryError(f"cannot use the number {text[:40]!r} in {whole.sql()[:200]!r}")
    return Fraction(text.strip())
