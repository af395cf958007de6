"""The local join as a merge of sorted basic blocks (section 5, "handshake join under pressure")."""

from bisect import bisect_left

import numpy as np
from numba import njit

from eddyline.plan import OPERATORS, All, Any_, Compare, Flag, Layout, Plan, Predicate
from eddyline.twin.admission import SINCE, Key, block_dtype, merge_keys
from eddyline.twin.local import Pairs
from eddyline.twin.protocol import Item

__all__ = ["MergeJoin"]

# Rows of a shelf's columns.
LOW, HIGH, CHECK_LOW, CHECK_HIGH, REACH = range(5)
NUMBER, WINDOW = range(2)


class MergeJoin:
    """Blocks sorted by an attribute, merged with each block that is held.

    The merge follows the first band of the predicate and checks the second, if there is one; the
    whole predicate is then evaluated on what is left.
    """

    def __init__(self, plan: Plan):
        self._plan = plan
        keys = merge_keys(plan)
        (r, s), (check_r, check_s) = keys[0], keys[min(1, len(keys) - 1)]
        self._shelves = (_Shelf(plan.r, r, check_r), _Shelf(plan.s, s, check_s))
        self._found = np.empty((2, 1 << 16), np.int64)
        self.comparisons = 0
        # Loads the kernel, or compiles it if this machine has not done so yet.
        self._merge(*self._shelves, first=0, begins=np.zeros(1, np.int64))

    def enter(self, item: Item, partners: list[Item], *, keep_from: int) -> Pairs:
        own, other = self._shelves[item.side], self._shelves[1 - item.side]
        first = own.put(item, keep_from)
        if not partners:
            nothing = np.empty(0, np.uint32)
            return nothing, nothing
        found = self._merge(own, other, first=first, begins=other.begins(partners))
        self.comparisons += found.shape[1]
        mine, theirs = own.records[found[0]], other.records[found[1]]
        r, s = (mine, theirs) if item.side == 0 else (theirs, mine)
        holds = _holds(self._plan, self._plan.predicate, r, s)
        return r["id"][holds], s["id"][holds]

    def _merge(
        self, own: "_Shelf", other: "_Shelf", *, first: int, begins: np.ndarray
    ) -> np.ndarray:
        while True:
            count = _merge(
                own.words, own.numbers, first, own.used,
                other.words, other.numbers, begins, self._found,
            )  # fmt: skip
            if count <= self._found.shape[1]:
                return self._found[:, :count]
            self._found = np.empty((2, 2 * count), np.int64)


class _Shelf:
    """The blocks of one side, one after the other, as the merge reads them.

    ``REACH`` is the largest high word from the start of the block: it only grows, whatever the
    high words do.
    """

    def __init__(self, layout: Layout, key: Key, check: Key):
        self._names = [layout.words[word].name for word in (*key, *check)]
        self._blocks: list[int] = []
        self._starts: list[int] = []
        self.used = 0
        self.words = np.empty((5, 1024), np.uint64)
        self.numbers = np.empty((2, 1024), np.int64)
        self.records = np.empty(1024, block_dtype(layout))

    def put(self, item: Item, keep_from: int) -> int:
        """Store a block and return where it starts."""
        block = item.content
        if self.used + len(block) > len(self.records):
            self._make_room(len(block), keep_from)
        place = slice(self.used, self.used + len(block))
        for row, name in enumerate(self._names):
            self.words[row, place] = block[name]
        np.maximum.accumulate(self.words[HIGH, place], out=self.words[REACH, place])
        self.numbers[NUMBER, place], self.numbers[WINDOW, place] = block["number"], block[SINCE]
        self.records[place] = block
        self._blocks.append(item.number)
        self._starts.append(self.used)
        self.used += len(block)
        return place.start

    def begins(self, items: list[Item]) -> np.ndarray:
        """Return where these consecutive blocks start, and where the last ends."""
        first = bisect_left(self._blocks, items[0].number)
        cuts = [*self._starts[first : first + len(items) + 1], self.used]
        return np.array(cuts[: len(items) + 1], np.int64)

    def _make_room(self, more: int, keep_from: int) -> None:
        gone = bisect_left(self._blocks, keep_from)
        skip = self._starts[gone] if gone < len(self._starts) else self.used
        kept = self.used - skip
        size = len(self.records)
        while 2 * (kept + more) > size:
            size *= 2
        for name in ("words", "numbers", "records"):
            old = getattr(self, name)
            new = np.empty((*old.shape[:-1], size), old.dtype)
            new[..., :kept] = old[..., skip : self.used]
            setattr(self, name, new)
        self._blocks = self._blocks[gone:]
        self._starts = [start - skip for start in self._starts[gone:]]
        self.used = kept


def _holds(plan: Plan, node: Predicate, r: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Evaluate the predicate on pairs of records."""
    match node:
        case All(parts):
            found = np.ones(len(r), bool)
            for part in parts:
                found &= _holds(plan, part, r, s)
            return found
        case Any_(parts):
            found = np.zeros(len(r), bool)
            for part in parts:
                found |= _holds(plan, part, r, s)
            return found
        case Flag(side, index):
            bit = np.uint64(1 << plan.layout(side).flag_bit(index))
            return (r if side == "r" else s)["valid"] & bit != 0
        case Compare(i, op, j):
            valid = (r["valid"] >> np.uint64(i)) & (s["valid"] >> np.uint64(j)) & np.uint64(1)
            words = r[plan.r.words[i].name], s[plan.s.words[j].name]
            return (valid != 0) & OPERATORS[op](*words)


@njit(nogil=True, cache=True, error_model="numpy")
def _merge(
    words: np.ndarray, numbers: np.ndarray, start: int, stop: int,
    stored: np.ndarray, stored_numbers: np.ndarray, begins: np.ndarray, found: np.ndarray,
) -> int:  # fmt: skip
    """Find pairs in each other's windows whose intervals may overlap; return their number.

    What does not fit the output is counted only.
    """
    count = 0
    for block in range(len(begins) - 1):
        begin, end = begins[block], begins[block + 1]
        first = last = begin
        for i in range(start, stop):
            low, high = words[LOW, i], words[HIGH, i]
            while first < end and stored[REACH, first] < low:
                first += 1
            while last < end and stored[LOW, last] <= high:
                last += 1
            while last > begin and stored[LOW, last - 1] > high:
                last -= 1
            for j in range(first, last):
                if (
                    stored[CHECK_LOW, j] <= words[CHECK_HIGH, i]
                    and words[CHECK_LOW, i] <= stored[CHECK_HIGH, j]
                    and stored_numbers[NUMBER, j] >= numbers[WINDOW, i]
                    and numbers[NUMBER, i] >= stored_numbers[WINDOW, j]
                ):
                    if count < found.shape[1]:
                        found[0, count] = i
                        found[1, count] = j
                    count += 1
    return count
