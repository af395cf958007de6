"""Range subgroups for bands: values are cut into stripes, and rows are shown across borders.

A band compares a value of one side with an interval of the other. The line of values is cut into
stripes of equal width, which take turns among the subgroups: so nothing has to be known of the
data, and a query that starts again cuts as before. A value is stored in the subgroup of its stripe,
and an interval in that of its end. An interval is shown to the subgroups of all stripes that it
touches, where values in it are; a value to those of all stripes where an interval around it may
end. Stripes are some times as wide as intervals, so few rows are shown to two subgroups.

Copies at borders are shown and never stored, so that a pair is found once even while units of
earlier runs are drained.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.errors import DataError
from eddyline.plan import All, Predicate, bands
from eddyline.query import Query
from eddyline.query.lower import SideRecipes, Value
from eddyline.words import words_to_floats

__all__ = ["Stripes", "find_stripes"]

TIMES = 16  # intervals to a stripe: of either side, one row in so many is shown across a border
MANY = 1 << 16  # stripes that a type must have room for, so that data may be expected to fill some
FURTHEST = 2.0**62
SLACK = 2.0**-20  # by which intervals around large floats may be wider, in parts of the value


@dataclass(frozen=True)
class Stripes:
    """Words of the band that is cut: ``side`` has the value, the other one has both bounds.

    ``reach`` is how far the end of an interval is from its beginning, at most.
    """

    side: str
    value: int
    low: int
    high: int
    kind: str  # of floats; nothing for words that are whole numbers
    reach: float

    @property
    def width(self) -> float:
        """Of a stripe."""
        return self.reach * TIMES

    def touched(
        self, query: Query, side: str, rows: pa.RecordBatch
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first and the last stripe of each row, and which rows can match at all."""
        if side == self.side:
            records = _encoded(query, side, [self.value], rows)
            value = records["w0"]
            return self._stripe(value), self._stripe(value, end=True), records["valid"] == 1
        records = _encoded(query, side, [self.low, self.high], rows)
        first, last = self._stripe(records["w0"]), self._stripe(records["w1"])
        valid = (records["valid"] == 3) & (records["w0"] <= records["w1"])
        if (valid & (last > self._stripe(records["w0"], end=True))).any():
            raise DataError(
                f"a band of {query.on!r} is wider here than elsewhere, so its rows cannot be cut "
                "by ranges: use subgroups=1"
            )
        return first, last, valid

    def _stripe(self, words: np.ndarray, *, end: bool = False) -> np.ndarray:
        """Return the stripe of a word, or of the last end of an interval that begins there.

        All steps keep the order of words, whatever they round. That is what pairs are found by.
        """
        if not self.kind:
            words = words.astype(np.uint64)
            if end:
                words += np.minimum(np.uint64(self.reach), ~words)
            return (words // np.uint64(self.width)).astype(np.int64)
        values = words_to_floats(words, self.kind).astype(np.float64)
        with np.errstate(over="ignore"):
            if end:
                values = values * np.where(values < 0, 1 - SLACK, 1 + SLACK) + self.reach
            stripes = np.floor(values / self.width)
        return np.nan_to_num(stripes, nan=FURTHEST).clip(-FURTHEST, FURTHEST).astype(np.int64)


def find_stripes(query: Query) -> Stripes | None:
    """Return how the values of a predicate can be cut: by a band of constant width, if it has one.

    None, too, if the type of its values has no room for many stripes.
    """
    for low, high in bands(_conjuncts(query.plan.predicate))[0]:
        side = "r" if low.r == high.r else "s"
        value, ends = (low.r, (low.s, high.s)) if side == "r" else (low.s, (high.r, low.r))
        recipe = query.lowering.side(side).words[value]
        if not isinstance(recipe, Value) or recipe.term.type.kind == "text":
            continue
        kind = recipe.term.type.kind if recipe.term.type.floating else ""
        reach = _reach(query, "s" if side == "r" else "r", ends, kind)
        if reach and (kind or (1 << recipe.term.type.width) // int(reach * TIMES) >= MANY):
            return Stripes(side, value, *ends, kind, reach)
    return None


def _conjuncts(predicate: Predicate) -> list[Predicate]:
    if not isinstance(predicate, All):
        return [predicate]
    return [one for part in predicate.parts for one in _conjuncts(part)]


def _reach(query: Query, side: str, ends: tuple[int, int], kind: str) -> float:
    """Return how wide intervals are, tried out; 0 if their ends come from two columns."""
    recipes = query.lowering.side(side)
    columns = {recipes.words[number].term.column for number in ends}
    if len(columns) > 1:
        return 0
    name = columns.pop()
    # Where a value is near an end of its type, intervals are cut off; so one is not enough.
    samples = [_sample(number, query.schema(side).field(name).type) for number in (0, 100, 10**6)]
    known = [one for one in samples if one is not None]
    rows = pa.RecordBatch.from_arrays([pa.concat_arrays(known)], [name]) if known else None
    if rows is None:
        return 0
    records = _encoded(query, side, list(ends), rows)
    records = records[(records["valid"] == 3) & (records["w0"] <= records["w1"])]
    if not len(records):
        return 0
    if not kind:
        return int((records["w1"].astype(np.uint64) - records["w0"]).max()) + 1
    low, high = (words_to_floats(records[word], kind).astype(np.float64) for word in ("w0", "w1"))
    widest = float((high - low).max())
    return widest if np.isfinite(widest) else 0


def _sample(number: int, type_: pa.DataType) -> pa.Array | None:
    raw = pa.array([number], pa.int32() if pa.types.is_date32(type_) else pa.int64())
    try:
        return raw.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _encoded(query: Query, side: str, numbers: list[int], rows: pa.RecordBatch) -> np.ndarray:
    """Make only these words of rows."""
    recipes = query.lowering.side(side)
    some = SideRecipes(recipes.schema, [recipes.words[number] for number in numbers])
    return SideEncoder(some, Dictionary(), side=side).encode(rows)
