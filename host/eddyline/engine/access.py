"""Which index serves a predicate: keys for it, and what is left to test on candidates.

A pair matches where the intervals of both tuples overlap: a value is the interval [v, v], a band
around a value is [lo, hi], and a bound without a partner is open on the other side. Equal words
stand above the interval in the key, so that intervals of different groups never overlap.

A disjunction has an index per part. What an earlier part finds, a later one leaves out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from eddyline.plan import All, Any_, Compare, Flag, Layout, Plan, Predicate, bands

__all__ = ["NO_BOUND", "Dimension", "Path", "access_paths", "comparisons", "has_flags"]

MOST_PATHS = 8
# A key has 64 bits. What equal words and a range need beyond is hashed, or cut off at its low end.
KEY_BITS = 64
HASH_BITS = 32
STRIP_BITS = 16
NO_BOUND = -1


@dataclass(frozen=True)
class Dimension:
    """Words of each side between which the other side's lie; a value is both."""

    r_low: int
    r_high: int
    s_low: int
    s_high: int

    def words(self, side: str) -> tuple[int, int]:
        return (self.r_low, self.r_high) if side == "r" else (self.s_low, self.s_high)


@dataclass(frozen=True)
class Path:
    """How one conjunction is looked up.

    ``equal`` are the words that make the group; ``dimensions`` none, one, or two, where the first
    is cut into strips. ``residual`` is tested on every candidate; none where the keys decide all.
    ``bounding`` are the comparisons that the dimensions stand for.
    """

    equal: tuple[Compare, ...]
    dimensions: tuple[Dimension, ...]
    residual: tuple[Predicate, ...]
    bounding: tuple[Compare, ...] = ()
    excluded: tuple[Predicate, ...] = ()
    hashed: bool = False
    unequal: bool = False
    group_bits: int = 0
    range_bits: int = 0
    truncated: int = 0
    needed: dict[str, int] = field(default_factory=dict)

    @property
    def wide(self) -> bool:
        return len(self.dimensions) == 2 or self.group_bits + self.range_bits > 32

    @property
    def undecided(self) -> tuple[Predicate, ...]:
        """What is left to test where bounds are stored and decide: in cells."""
        return tuple(one for one in self.residual if one not in self.bounding)

    @property
    def by_hash(self) -> bool:
        return not self.dimensions and not self.unequal

    def structure(self, engine: str) -> str:
        """Name what an engine looks this up in: BI-Sort, which serves all, or its own index."""
        serves = {
            "rap": len(self.dimensions) < 2 and not self.unequal,
            "wib": len(self.dimensions) < 2 and not self.unequal,
            "hash": self.by_hash,
            "grid": True,
        }
        return engine if serves.get(engine) else "bisort"


def access_paths(plan: Plan) -> list[Path] | None:
    """Return how the parts of a predicate are looked up, or None if no index serves it."""
    conjunctions = _conjunctions(_parts(plan.predicate), MOST_PATHS)
    if not conjunctions:
        return None
    paths: list[Path] = []
    earlier: list[Predicate] = []
    for parts in conjunctions:
        path = _path(plan, parts, tuple(earlier))
        if path is None:
            return None
        paths.append(path)
        earlier.append(All(tuple(parts)))
    return paths


def _parts(node: Predicate) -> list[Predicate]:
    return list(node.parts) if isinstance(node, All) else [node]


def _conjunctions(parts: list[Predicate], most: int) -> list[list[Predicate]]:
    """Split a conjunction into several that an index serves; nothing if there is no such way.

    A comparison at the top serves the whole conjunction. Otherwise a disjunction inside is drawn
    out, one conjunction for each of its parts.
    """
    compares = [part for part in parts if isinstance(part, Compare)]
    if any(one.op != "ne" for one in compares):
        return [parts]
    for choice in [part for part in parts if isinstance(part, Any_)]:
        rest = [part for part in parts if part is not choice]
        found: list[list[Predicate]] = []
        for part in choice.parts:
            some = _conjunctions(rest + _parts(part), most - len(found))
            if not some or len(found) + len(some) > most:
                break
            found += some
        else:
            if found:
                return found
    return [parts] if compares else []


def _path(plan: Plan, parts: list[Predicate], earlier: tuple[Predicate, ...]) -> Path | None:
    compares = [part for part in parts if isinstance(part, Compare)]
    others = tuple(part for part in parts if isinstance(part, All | Any_))
    equal = tuple(one for one in compares if one.op == "eq")
    pairs, single = bands(compares)
    dimensions: list[tuple[Dimension, tuple[Compare, ...]]]
    dimensions = [(_band(low, high), (low, high)) for low, high in pairs]
    if not dimensions:
        dimensions += [(_bound(one), (one,)) for one in single if one.op in ("le", "ge")][:1]
    needed = {side: _needed(plan.layout(side), side, parts) for side in "rs"}
    widths = [plan.r.words[one.r].width for one in equal]
    decided: set[Compare] = set()
    keys: dict = {}
    if equal:
        chosen = dimensions[:1]
        width = _width(plan, chosen[0][0]) if chosen else 0
        group = sum(widths)
        hashed = group > KEY_BITS or (bool(chosen) and group > KEY_BITS - min(width, HASH_BITS))
        bits = (HASH_BITS if chosen else KEY_BITS) if hashed else group
        range_bits = min(width, KEY_BITS - bits)
        keys = {
            "hashed": hashed,
            "group_bits": bits,
            "range_bits": range_bits,
            "truncated": width - range_bits,
        }
        if not hashed:
            decided |= set(equal)
        if chosen and range_bits == width and not hashed:
            decided |= set(chosen[0][1])
    elif len(dimensions) > 1:
        chosen = dimensions[:2]
        width = _width(plan, chosen[1][0])
        range_bits = min(width, KEY_BITS - STRIP_BITS)
        keys = {"range_bits": range_bits, "truncated": width - range_bits}
        if range_bits == width:
            decided |= set(chosen[1][1])
    elif dimensions:
        chosen = dimensions
        keys = {"range_bits": _width(plan, chosen[0][0])}
        decided |= set(chosen[0][1])
    else:
        chosen = []
        unequal = next((one for one in compares if one.op == "ne"), None)
        if unequal is None:
            return None
        equal = (unequal,)
        keys = {"group_bits": plan.r.words[unequal.r].width, "unequal": True}
        decided.add(unequal)
    residual = tuple(one for one in compares if one not in decided) + others
    return Path(
        equal=equal,
        dimensions=tuple(dimension for dimension, _ in chosen),
        residual=residual,
        bounding=tuple(one for _, some in chosen for one in some),
        excluded=earlier,
        needed=needed,
        **keys,
    )


def _band(low: Compare, high: Compare) -> Dimension:
    """Read ``low`` (``>=``) and ``high`` (``<=``), which share the word of one side."""
    if low.r == high.r:
        return Dimension(low.r, low.r, low.s, high.s)
    return Dimension(high.r, low.r, low.s, low.s)


def _bound(one: Compare) -> Dimension:
    if one.op == "le":
        return Dimension(one.r, one.r, NO_BOUND, one.s)
    return Dimension(one.r, one.r, one.s, NO_BOUND)


def _width(plan: Plan, dimension: Dimension) -> int:
    words = [plan.r.words[i] for i in dimension.words("r") if i != NO_BOUND]
    words += [plan.s.words[i] for i in dimension.words("s") if i != NO_BOUND]
    return max(word.width for word in words)


def _needed(layout: Layout, side: str, parts: Iterable[Predicate]) -> int:
    """Return the validity bits without which a tuple matches nothing."""
    bits = 0
    for part in parts:
        if isinstance(part, Compare):
            word = part.r if side == "r" else part.s
            bits |= layout.words[word].optional << word
        elif isinstance(part, Flag) and part.side == side:
            bits |= 1 << layout.flag_bit(part.index)
    return bits


def comparisons(node: Predicate) -> Iterator[Compare]:
    """Yield all comparisons inside a predicate."""
    if isinstance(node, Compare):
        yield node
    elif isinstance(node, All | Any_):
        for part in node.parts:
            yield from comparisons(part)


def has_flags(node: Predicate) -> bool:
    return isinstance(node, Flag) or (
        isinstance(node, All | Any_) and any(has_flags(part) for part in node.parts)
    )
