"""Which unit stores a row, and which units are shown it.

Units are cut into subgroups. An equality sends a row to one subgroup, by the hash of its value, and
spreads rows over the units of it (BiStream's ContRand). A band does so by stripes of values, and
shows rows near borders to two subgroups (see ``stripes``). Without either there is one subgroup,
and rows are spread over all units (random routing). Nothing here is left to chance: a batch that is
replayed must take the same ways.

The join-matrix, which BiStream is compared with, is here too: units in rows and columns, a tuple of
R stored by every unit of a row, one of S by every unit of a column.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from eddyline.biclique.stripes import Stripes, find_stripes
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.errors import QueryError
from eddyline.plan import All, Compare, Predicate
from eddyline.query import Query
from eddyline.query.lower import SideRecipes, Value

__all__ = ["Router", "Routing", "equalities", "make_routing", "require_known"]

MIX = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))


@dataclass(frozen=True)
class Routing:
    """``units`` units in ``subgroups`` subgroups of the same size, or in ``columns``.

    ``draining`` are the routings of earlier runs whose rows may still be matched: units of those
    store nothing new, but are shown it.
    """

    units: int
    subgroups: int
    columns: int = 0  # of a join-matrix
    ranges: bool = False  # whether subgroups are of stripes of a band, not of an equality
    draining: tuple["Routing", ...] = ()
    cut: str = ""  # tells apart what subgroups are cut by

    @property
    def each(self) -> int:
        """Units that share what is stored: a row is shown to all of them, and stored by one."""
        return 1 if self.columns else self.units // self.subgroups

    @property
    def shares(self) -> int:
        """Units that a row is shown to, or 2 where that differs: above 1, not all is stored."""
        return max(self.each, 2) if self.draining or self.ranges else self.each

    @property
    def spreads(self) -> bool:
        """Whether it takes the hash of a row to know its unit."""
        routings = (self, *self.draining)
        return any(one.each > 1 or (one.columns and one.units > 1) for one in routings)

    @property
    def label(self) -> str:
        """Tell this routing from others, without those before it."""
        kind = "matrix" if self.columns else "units"
        return f"{kind} {self.units} {self.columns or self.subgroups} {self.cut}".rstrip()

    def lines(self, side: str) -> int:
        """Return into how many parts a side is cut."""
        if not self.columns:
            return self.units
        return self.units // self.columns if side == "r" else self.columns

    def group(self, number: int) -> range:
        """Return the units of a subgroup; behind the last one comes the first."""
        first = number % self.subgroups * self.each
        return range(first, first + self.each)

    def shown(self, side: str, line: int) -> range:
        """Return the units that are shown a part of a side."""
        if not self.columns:
            return self.group(line // self.each)
        if side == "r":
            return range(line * self.columns, (line + 1) * self.columns)
        return range(line, self.units, self.columns)

    def stores(self, line: int, unit: int) -> bool:
        """Say whether a unit that is shown a part stores it."""
        return bool(self.columns) or unit == line

    def first(self, side: str, unit: int) -> bool:
        """Say whether a unit is the first of those that store a part: where it is counted."""
        if not self.columns:
            return True
        return unit % self.columns == 0 if side == "r" else unit < self.columns


def equalities(predicate: Predicate) -> list[Compare]:
    """Return the equalities that every pair must satisfy."""
    parts = predicate.parts if isinstance(predicate, All) else (predicate,)
    found = [part for part in parts if isinstance(part, Compare) and part.op == "eq"]
    for part in parts:
        if isinstance(part, All):
            found += equalities(part)
    return found


Units = int | tuple[int, int]


def make_routing(
    query: Query,
    units: Units,
    subgroups: int | None = None,
    draining: Iterable[int | tuple[int, int]] = (),
) -> Routing:
    """Return a routing, by default with as many subgroups as the predicate allows.

    A pair of numbers of units are the rows and columns of a join-matrix. ``draining`` are numbers
    of units of earlier runs, or pairs of units and subgroups.

    Raises
    ------
    QueryError
        If the numbers do not go together, with each other or with the query.
    """
    matrix = isinstance(units, tuple | list)
    asked = [("units", one) for one in (units if matrix else [units])]  # type: ignore[union-attr]
    if matrix and len(asked) != 2:
        raise QueryError(f"units={units!r} is neither a number nor rows and columns")
    for name, number in [*asked, ("subgroups", subgroups)]:
        wrong = isinstance(number, bool) or not isinstance(number, int) or number < 1
        if wrong and (number is not None or name == "units"):
            raise QueryError(f"{name}={number!r} is not a number from 1 up")
    if isinstance(units, tuple | list):
        if subgroups is not None:
            raise QueryError("a join-matrix has rows and columns of units, and no subgroups")
        rows, columns = units
        units = rows * columns
    else:
        columns = 0
    equal = bool(equalities(query.plan.predicate))
    if any(window.kind == "rows" for window in (query.window_r, query.window_s)) and units > 1:
        raise QueryError(
            f"windows of rows are counted over the whole stream, so {units} units could not tell "
            "which rows are inside: use 1 unit, or windows of time"
        )
    former = tuple(make_routing(query, *one) for one in _pairs(draining))
    if columns:
        if former:
            raise QueryError("the units of a join-matrix cannot change while it runs")
        return Routing(units, 1, columns)
    ranges = not equal and find_stripes(query) is not None
    if subgroups is None:
        subgroups = units if equal or ranges else 1
    if subgroups > 1 and not (equal or ranges):
        raise QueryError(
            f"{subgroups} subgroups need an equality that every pair satisfies, or a band of "
            f"constant width, and the predicate {query.on!r} has none: use 1 subgroup"
        )
    if units % subgroups:
        raise QueryError(f"{units} units cannot be cut into {subgroups} equal subgroups")
    cut = _cut(query) if subgroups > 1 else ""
    return Routing(units, subgroups, ranges=ranges and subgroups > 1, draining=former, cut=cut)


def _cut(query: Query) -> str:
    """Return a digest of what subgroups are cut by: the equalities, or else the band."""
    words = {side: query.lowering.side(side).words for side in ("r", "s")}
    equal = equalities(query.plan.predicate)
    used = [one for pair in equal for one in (words["r"][pair.r], words["s"][pair.s])]
    bounds: tuple[object, ...] = ()
    if not equal and (stripes := find_stripes(query)):
        mine, other = words[stripes.side], words["s" if stripes.side == "r" else "r"]
        used = [mine[stripes.value], other[stripes.low], other[stripes.high]]
        bounds = (stripes.side, stripes.width)
    told = [f"{one.term.side} {one}, {one.term.type.name}" for one in used]
    return f"{zlib.crc32(repr((told, bounds)).encode()):08x}"


def _pairs(draining: Iterable[Units]) -> Iterator[tuple[int, int | None]]:
    if isinstance(draining, str) or not isinstance(draining, Iterable):
        raise QueryError(f"draining={draining!r} is no list of numbers of units: write [4], say")
    for one in draining:
        if not isinstance(one, tuple | list):
            yield one, None
        elif len(one) == 2:
            yield one[0], one[1]
        else:
            raise QueryError(f"draining={one!r} is neither units, nor units and subgroups")


def require_known(query: Query, routing: Routing, labels: Iterable[str]) -> None:
    """Refuse rows that were stored by a routing that is not among these: nothing would meet them.

    Raises
    ------
    QueryError
        If there are such, with what has to be given instead.
    """
    known = {one.label for one in (routing, *routing.draining)}
    for label in sorted({*labels} - known):
        kind, units, parts, *cut = label.split()
        pair = (int(units), int(parts))
        if cut and cut != [_cut(query)]:
            raise QueryError(
                "rows are stored that an earlier run from this checkpoint had spread by other "
                f"equalities or another band than {query.on!r} has, and nothing would meet them: "
                "give the predicate of that run, or begin with a new checkpoint"
            )
        if kind == "matrix":
            way_out = f"give units={(pair[0] // pair[1], pair[1])} as that run had"
        elif routing.columns:
            way_out = f"give units={pair[0]}, subgroups={pair[1]} as that run had"
        else:
            usual = make_routing(query, pair[0]).subgroups == pair[1]
            way_out = f"add draining=[{pair[0] if usual else pair}]"
        raise QueryError(
            f"rows are stored that an earlier run from this checkpoint had spread over {pair[0]} "
            f"units, and nothing would meet them: {way_out}"
        )


@dataclass(frozen=True)
class _Groups:
    """Subgroups of rows: the first that each is shown to, how many, and the one that stores it."""

    first: np.ndarray
    many: np.ndarray
    home: np.ndarray
    valid: np.ndarray


def _alike(table: list[np.ndarray]) -> list[np.ndarray]:
    """Return the places at which all columns of small numbers have the same values."""
    if not len(table[0]):
        return []
    code, bound = np.zeros(len(table[0]), np.int64), 1
    for column in table:
        least = int(column.min())
        size = int(column.max()) - least + 1
        if bound * size >= 1 << 62:
            bound, code = len(code), np.unique(code, return_inverse=True)[1]
        code, bound = code * size + (column - least), bound * size
    if bound <= 1 << 16:
        code = code.astype(np.uint16)  # these are sorted without comparing them
    order = np.argsort(code, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(code[order])) + 1)


@dataclass(frozen=True)
class Router:
    """Finds the ways of one side's rows; with ``strays``, of rows that nothing can match, too."""

    query: Query
    side: str
    routing: Routing
    strays: bool = False

    def ways(
        self, rows: pa.RecordBatch, spread: np.ndarray | None
    ) -> Iterator[tuple[int, np.ndarray, list[int]]]:
        """Yield the parts that rows belong to, the places of these rows, and who is shown them.

        ``spread`` are hashes of whole rows, as 64-bit integers; only some routings need them.
        """
        routing = self.routing
        if not (routing.draining or routing.ranges or self.strays):
            yield from self._ways(rows, spread)
            return
        routings = (routing, *routing.draining)
        groups = [Router(self.query, self.side, one)._groups(rows) for one in routings]
        table = [self._home(groups[0], spread)]
        for one in groups:
            table += [one.first, np.where(one.valid, one.many, 0)]
        for places in _alike(table):
            home, *spans = (int(column[places[0]]) for column in table)
            if home >= 0:
                shown = set(self.routing.shown(self.side, home)) if self.routing.columns else {home}
                if not self.routing.columns:
                    for routing, first, many in zip(routings, spans[::2], spans[1::2], strict=True):
                        shown.update(*(routing.group(one) for one in range(first, first + many)))
                yield home, places, sorted(shown)

    def _ways(
        self, rows: pa.RecordBatch, spread: np.ndarray | None
    ) -> Iterator[tuple[int, np.ndarray, list[int]]]:
        """Do the same where a row's home says all: much the cheapest."""
        if self.routing.units == 1:
            yield 0, np.arange(rows.num_rows), [0]
            return
        home = self.home(rows, spread)
        for line in np.flatnonzero(np.bincount(home + 1)[1:]).tolist():
            yield line, np.flatnonzero(home == line), list(self.routing.shown(self.side, line))

    def home(self, rows: pa.RecordBatch, spread: np.ndarray | None) -> np.ndarray:
        """Return the part that each row belongs to, or -1 if nothing can match it and it stays."""
        return self._home(self._groups(rows), spread)

    def _home(self, groups: "_Groups", spread: np.ndarray | None) -> np.ndarray:
        if spread is None:
            spread = np.zeros(len(groups.valid), np.int64)
        spread = _mixed(spread.astype(np.int64, copy=False).view(np.uint64))
        if self.routing.subgroups == 1:
            return (spread % np.uint64(self.routing.lines(self.side))).astype(np.int64)
        # Other bits than those that make the group of a row whose hash is that of its key.
        within = (_mixed(spread) % np.uint64(self.routing.each)).astype(np.int64)
        astray = (spread % np.uint64(self.routing.units)).astype(np.int64) if self.strays else -1
        return np.where(groups.valid, groups.home * self.routing.each + within, astray)

    def _groups(self, rows: pa.RecordBatch) -> "_Groups":
        """Return the subgroups that rows are shown to."""
        ones = np.ones(rows.num_rows, np.int64)
        if self.routing.subgroups == 1:
            return _Groups(ones - 1, ones, ones - 1, ones.astype(bool))
        if self.routing.ranges:
            assert self._stripes
            first, last, valid = self._stripes.touched(self.query, self.side, rows)
            home = first if self.side == self._stripes.side else last
            number = self.routing.subgroups
            # The ends of the line may be further apart than numbers with a sign count.
            further = np.minimum(
                last.view(np.uint64) - first.view(np.uint64), np.uint64(number - 1)
            )
            return _Groups(first % number, further.astype(np.int64) + 1, home % number, valid)
        key = np.zeros(rows.num_rows, np.uint64)
        valid = np.ones(rows.num_rows, bool)
        records = self._encoder.encode(rows)
        for number, column in self._words:
            words = (
                records[f"w{number}"].astype(np.uint64) if column is None else _texts(rows[column])
            )
            key = _mixed(key * MIX[0] + words)
            valid &= (records["valid"] >> np.uint64(number) & np.uint64(1)).astype(bool)
        group = (key % np.uint64(self.routing.subgroups)).astype(np.int64)
        return _Groups(group, ones, group, valid)

    @cached_property
    def _stripes(self) -> Stripes | None:
        return find_stripes(self.query)

    @cached_property
    def _words(self) -> list[tuple[int, str | None]]:
        """Words of this side that an equality compares, with the column if it is text."""
        found: list[tuple[int, str | None]] = []
        for one in equalities(self.query.plan.predicate):
            number = one.r if self.side == "r" else one.s
            recipe = self._recipes.words[number]
            text = isinstance(recipe, Value) and recipe.term.type.kind == "text"
            found.append((number, recipe.term.column if text else None))
        return found

    @property
    def _recipes(self) -> SideRecipes:
        return self.query.lowering.side(self.side)

    @property
    def _encoder(self) -> SideEncoder:
        return SideEncoder(self._recipes, Dictionary(), side=self.side)


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Let every bit of a hash depend on every bit of it (MurmurHash3's finalizer)."""
    shift = np.uint64(33)
    for factor in MIX:
        hashes = (hashes ^ (hashes >> shift)) * factor
    return hashes ^ (hashes >> shift)


def _texts(column: pa.Array) -> np.ndarray:
    """Return hashes of strings that are the same in every process."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.large_string()).dictionary_encode()
    values = column.dictionary.to_pylist()
    table = [zlib.crc32(str(value).encode("utf-8", "surrogatepass")) for value in values] or [0]
    return np.array(table, np.uint64)[column.indices.fill_null(0).to_numpy(zero_copy_only=False)]
