"""The lowered form of a query: what a device needs to know, and nothing else.

A device never sees a row. It sees one record per tuple: an id, a time, a word of validity bits
and a few unsigned words. The predicate compares words of an R record with words of an S record.
This module imports only the standard library, so gateware and wire protocol can use it alone.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

__all__ = [
    "All", "Any_", "Compare", "Flag", "Layout", "Order", "Plan", "Predicate", "Window", "Word",
    "bands", "in_rows",
]  # fmt: skip

VERSION = 1
OPERATORS = {
    "eq": lambda r, s: r == s,
    "ne": lambda r, s: r != s,
    "le": lambda r, s: r <= s,
    "ge": lambda r, s: r >= s,
}
SYMBOLS = {"eq": "=", "ne": "<>", "le": "<=", "ge": ">="}


@dataclass(frozen=True)
class Word:
    """One unsigned word of a record.

    ``optional`` words may be invalid (a NULL, or a bound that no value can meet); a comparison
    with an invalid word is false.
    """

    name: str
    width: int
    optional: bool
    text: str

    @property
    def storage(self) -> int:
        """Width of the machine integer that holds the word."""
        return next(bits for bits in (8, 16, 32, 64) if bits >= self.width)


@dataclass(frozen=True)
class Layout:
    """Words and flags of one side's records. A flag is a condition on that side alone."""

    words: tuple[Word, ...]
    flags: tuple[str, ...]

    @cached_property
    def fields(self) -> list[tuple[str, str]]:
        """Return the record as numpy describes it: ``np.dtype(layout.fields)``.

        Bit ``i`` of ``valid`` belongs to word ``i``; the flags follow the words.
        """
        return [
            ("id", "<u4"),
            ("time", "<i8"),
            ("valid", "<u8"),
            *((word.name, f"<u{word.storage // 8}") for word in self.words),
        ]

    def flag_bit(self, flag: int) -> int:
        return len(self.words) + flag

    @property
    def device_bits(self) -> int:
        """Bits of a stored tuple on a device that packs them: words, validity bits and flags."""
        return sum(word.width + word.optional for word in self.words) + len(self.flags)


@dataclass(frozen=True)
class Compare:
    """``R word op S word``, false where either word is invalid."""

    r: int
    op: str
    s: int


@dataclass(frozen=True)
class Flag:
    """A flag of one side is set."""

    side: str
    index: int


@dataclass(frozen=True)
class All:
    """Every part holds; with no parts, always."""

    parts: tuple["Predicate", ...]


@dataclass(frozen=True)
class Any_:
    """At least one part holds; with no parts, never."""

    parts: tuple["Predicate", ...]


def bands(parts: Iterable["Predicate"]) -> tuple[list[tuple[Compare, Compare]], list[Compare]]:
    """Pair the comparisons ``>=`` and ``<=`` of a conjunction that bound one word from both sides.

    Returns
    -------
    pairs, single
        The pairs as (``>=``, ``<=``), and the comparisons that have no partner.
    """
    single = [part for part in parts if isinstance(part, Compare)]
    pairs = []
    for low in [one for one in single if one.op == "ge"]:
        for high in [one for one in single if one.op == "le"]:
            if low in single and (low.r == high.r) != (low.s == high.s):
                pairs.append((low, high))
                single.remove(low)
                single.remove(high)
    return pairs, single


Predicate = Compare | Flag | All | Any_
NODES: dict[str, type] = {"compare": Compare, "flag": Flag, "all": All, "any": Any_}


@dataclass(frozen=True)
class Window:
    """``rows``: the last ``size`` tuples; ``time``: age at most ``size``; or ``unbounded``."""

    kind: str
    size: int = 0


@dataclass(frozen=True)
class Order:
    """``none``, ``outer`` or ``inner``, with a star every ``every`` arrivals or comparisons.

    ``every`` of 0 is the strict form: one star per arrival.
    """

    kind: str
    every: int = 0


@dataclass(frozen=True)
class Plan:
    """Everything a device needs. Immutable; two plans are equal when their digests are."""

    r: Layout
    s: Layout
    predicate: Predicate
    window_r: Window
    window_s: Window
    order: Order
    timed: bool
    id_bits: int = 32

    def layout(self, side: str) -> Layout:
        return self.r if side == "r" else self.s

    def window(self, side: str) -> Window:
        return self.window_r if side == "r" else self.window_s

    def matches(self, r: Any, s: Any) -> bool:
        """Evaluate the predicate on one record of each side (anything indexed by field name)."""
        return self._holds(self.predicate, r, s)

    def _holds(self, node: Predicate, r: Any, s: Any) -> bool:
        match node:
            case All(parts):
                return all(self._holds(part, r, s) for part in parts)
            case Any_(parts):
                return any(self._holds(part, r, s) for part in parts)
            case Flag(side, index):
                record = r if side == "r" else s
                return bool(int(record["valid"]) >> self.layout(side).flag_bit(index) & 1)
            case Compare(i, op, j):
                valid = int(r["valid"]) >> i & int(s["valid"]) >> j & 1
                return bool(
                    valid and OPERATORS[op](r[self.r.words[i].name], s[self.s.words[j].name])
                )

    def to_json(self) -> str:
        fields = asdict(self) | {"predicate": _node_to_dict(self.predicate), "version": VERSION}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        fields = json.loads(text)
        version = fields.pop("version", None)
        if version != VERSION:
            raise ValueError(f"plan version {version!r} is not {VERSION}; lower the query again")
        for side in ("r", "s"):
            words = tuple(Word(**word) for word in fields[side]["words"])
            fields[side] = Layout(words, tuple(fields[side]["flags"]))
            fields[f"window_{side}"] = Window(**fields[f"window_{side}"])
        fields["order"] = Order(**fields["order"])
        fields["predicate"] = _node_from_dict(fields["predicate"])
        return cls(**fields)

    @cached_property
    def digest(self) -> str:
        """Name the plan by its content: 64 hexadecimal digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def in_rows(plan: Plan, capacity: int) -> Plan:
    """Return the same join over windows of rows, for devices that hold ``capacity`` rows a side.

    A time window becomes two words and a comparison: a tuple has a time ``when`` it came and a
    time ``until`` which it is young, both as unsigned numbers. A pair is inside both windows if
    neither tuple came after the other had grown old: the one that came first makes its comparison
    decide, the other's is true by itself. Unbounded windows become ``capacity`` rows too. A tuple
    that leaves while it is still young is for the device to notice.
    """
    sides = {side: list(plan.layout(side).words) for side in "rs"}
    parts: list[Predicate] = []
    for side, other, op in (("r", "s", "ge"), ("s", "r", "le")):
        if plan.window(side).kind != "time":
            continue
        places = {}
        for owner, name in ((side, "until"), (other, "when"), (side, "when")):
            word = Word(name, 64, False, f"{owner}.{name}")
            if word not in sides[owner]:
                sides[owner].append(word)
            places[owner, name] = sides[owner].index(word)
        until, when = places[side, "until"], places[other, "when"]
        parts.append(Compare(until, op, when) if side == "r" else Compare(when, op, until))
    windows = {
        side: plan.window(side) if plan.window(side).kind == "rows" else Window("rows", capacity)
        for side in "rs"
    }
    if not parts:
        predicate = plan.predicate
    else:
        predicate = All((plan.predicate, *parts))
    return replace(
        plan,
        r=replace(plan.r, words=tuple(sides["r"])),
        s=replace(plan.s, words=tuple(sides["s"])),
        predicate=predicate,
        window_r=windows["r"],
        window_s=windows["s"],
    )


def _node_to_dict(node: Predicate) -> dict[str, Any]:
    kind = next(name for name, cls in NODES.items() if isinstance(node, cls))
    if isinstance(node, All | Any_):
        return {kind: [_node_to_dict(part) for part in node.parts]}
    return {kind: asdict(node)}


def _node_from_dict(node: Mapping[str, Any]) -> Predicate:
    ((kind, content),) = node.items()
    if kind in ("all", "any"):
        return NODES[kind](tuple(_node_from_dict(part) for part in content))
    return NODES[kind](**content)
