"""The nested loop: every new tuple against every tuple of the other window, in vector code.

A predicate is a short program over masks. It runs on blocks of stored tuples that fit the
first-level cache, for a group of new tuples at a time, so that each block is loaded once per
group. The kernels are compiled once per machine, not once per predicate.
"""

import logging
from functools import cache

import numpy as np
from numba import njit

from eddyline.engine.history import History
from eddyline.plan import All, Any_, Compare, Flag, Layout, Plan, Predicate, Window, bands

__all__ = ["program", "scan", "warm_up"]

logger = logging.getLogger(__name__)

BLOCK = 8192
GROUP = 16

# An instruction is an opcode, a mask level and operands: for comparisons the bank and row of the
# stored column, the operator or second column, and one or two words of the probe. The last
# operand of a band says that the mask is still unwritten, which saves filling it first.
FILL, COMPARE, BETWEEN_PROBE, BETWEEN_STORED, STORED_BITS, PROBE_BITS, AND_UP, OR_UP = range(8)
OPS = {"eq": 0, "ne": 1, "le": 2, "ge": 3}
MIRRORED = {"eq": "eq", "ne": "ne", "le": "ge", "ge": "le"}
WIDTH = 8
# Stored column, operator, word of the probe.
Oriented = tuple[int, str, int]


def program(plan: Plan, stored: str, places: list[tuple[int, int]]) -> np.ndarray:
    """Compile the predicate for new tuples that meet stored ones of side ``stored``.

    Level 0 of the mask stack holds the answer. A comparison that may be invalid on the stored
    side is followed by a test of its validity bits.
    """
    code: list[list[int]] = []
    compiler = _Compiler(plan, stored, places, code)
    compiler.node(plan.predicate, 0)
    return np.array(code, np.int64).reshape(-1, WIDTH)


class _Compiler:
    def __init__(
        self, plan: Plan, stored: str, places: list[tuple[int, int]], code: list[list[int]]
    ):
        self.stored = stored
        self.places = places
        self.layout: Layout = plan.layout(stored)
        self.probe_layout: Layout = plan.layout("s" if stored == "r" else "r")
        self.code = code

    def emit(self, opcode: int, level: int, *rest: int) -> None:
        self.code.append([opcode, level, *rest] + [0] * (WIDTH - 2 - len(rest)))

    def node(self, node: Predicate, level: int) -> None:
        match node:
            case All(parts):
                self.conjunction(list(parts), level)
            case Any_(parts):
                self.emit(FILL, level, 0)
                for part in parts:
                    self.node(part, level + 1)
                    self.emit(OR_UP, level)
            case _:
                self.conjunction([node], level)

    def conjunction(self, parts: list[Predicate], level: int) -> None:
        pairs, single = bands(parts)
        if not pairs:
            self.emit(FILL, level, 1)
        for number, pair in enumerate(pairs):
            one, two = (self.oriented(part) for part in pair)
            low, high = (one, two) if one[1] == "ge" else (two, one)
            self.band(low, high, level, fresh=number == 0)
        for compare in single:
            column, op, word = self.oriented(compare)
            bank, row = self.places[column]
            self.emit(COMPARE, level, bank, row, OPS[op], word)
            self.validity({column}, level)
        for part in parts:
            match part:
                case Flag(side, index) if side == self.stored:
                    self.emit(STORED_BITS, level, _signed(1 << self.layout.flag_bit(index)))
                case Flag(side, index):
                    self.emit(PROBE_BITS, level, _signed(1 << self.probe_layout.flag_bit(index)))
                case All() | Any_():
                    self.node(part, level + 1)
                    self.emit(AND_UP, level)

    def oriented(self, compare: Compare) -> Oriented:
        if self.stored == "r":
            return compare.r, compare.op, compare.s
        return compare.s, MIRRORED[compare.op], compare.r

    def band(self, low: Oriented, high: Oriented, level: int, *, fresh: bool) -> None:
        columns = {low[0], high[0]}
        if len(columns) == 1:  # low word <= stored <= high word
            bank, row = self.places[low[0]]
            self.emit(BETWEEN_PROBE, level, bank, row, 0, low[2], high[2], fresh)
        else:  # stored low <= word <= stored high: what is at most the word is the low column
            (bank, row), (_, second) = self.places[high[0]], self.places[low[0]]
            self.emit(BETWEEN_STORED, level, bank, row, second, low[2], 0, fresh)
        self.validity(columns, level)

    def validity(self, columns: set[int], level: int) -> None:
        bits = sum(1 << column for column in columns if self.layout.words[column].optional)
        if bits:
            self.emit(STORED_BITS, level, _signed(bits))


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def scan(
    code: tuple[np.ndarray, np.ndarray],
    stored: tuple[History, History],
    probes: tuple[np.ndarray, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scan the windows for a run of new tuples.

    Returns
    -------
    found : array of uint32
        Ids of the partners, by new tuple, oldest first.
    at : array of int64
        Their sequence numbers.
    ends : array of int64
        How many partners were found up to and including each new tuple.
    """
    sides, narrow, wide, valid, starts, stops = probes
    lengths = np.minimum(stops - starts, np.int64(1) << 40)
    found = np.empty(int(lengths.sum()), np.uint32)
    at = np.empty(len(found), np.int64)
    ends = np.empty(len(sides), np.int64)
    r, s = stored
    _scan(
        code[0], code[1],
        r.narrow, r.wide, r.valid, r.common, r.ids, r.base,
        s.narrow, s.wide, s.valid, s.common, s.ids, s.base,
        sides, narrow, wide, valid, starts, stops,
        found, at, ends,
    )  # fmt: skip
    total = int(ends[-1]) if len(ends) else 0
    return found[:total], at[:total], ends


@cache
def warm_up() -> None:
    """Load the kernels, or compile them if this machine has not done so yet."""
    logger.info("loading kernels; the first time on a machine this takes some seconds")
    nothing = History(Layout((), ()), Window("unbounded"))
    code = np.zeros((0, WIDTH), np.int64)
    none = np.zeros(0, np.int64)
    words = np.zeros((0, 1), np.uint32), np.zeros((0, 1), np.uint64)
    probes = (none.astype(np.uint8), *words, none.astype(np.uint64), none, none)
    scan((code, code), (nothing, nothing), probes)


_compiled = njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def _and_compare(stored, op, word, mask):
    if op == 0:
        for i in range(len(mask)):
            mask[i] &= stored[i] == word
    elif op == 1:
        for i in range(len(mask)):
            mask[i] &= stored[i] != word
    elif op == 2:
        for i in range(len(mask)):
            mask[i] &= stored[i] <= word
    else:
        for i in range(len(mask)):
            mask[i] &= stored[i] >= word


@_compiled
def _and_between_narrow(stored, low, high, mask, fresh):
    """One subtraction and one comparison, modulo 2^32."""
    span = np.uint32(high - low)
    if high < low:
        mask[:] = 0
    elif fresh:
        for i in range(len(mask)):
            mask[i] = np.uint32(stored[i] - low) <= span
    else:
        for i in range(len(mask)):
            mask[i] &= np.uint32(stored[i] - low) <= span


@_compiled
def _and_between_wide(stored, low, high, mask):
    span = high - low
    if high < low:
        mask[:] = 0
    else:
        for i in range(len(mask)):
            mask[i] &= stored[i] - low <= span


@_compiled
def _and_between_stored(low, high, word, mask, fresh):
    if fresh:
        for i in range(len(mask)):
            mask[i] = (low[i] <= word) & (word <= high[i])
    else:
        for i in range(len(mask)):
            mask[i] &= (low[i] <= word) & (word <= high[i])


@_compiled
def _and_bits(valid, bits, mask):
    for i in range(len(mask)):
        mask[i] &= (valid[i] & bits) == bits


@_compiled
def _run(code, narrow, wide, valid, common, lo, hi, probe_narrow, probe_wide, probe_valid, masks):
    """Leave in level 0 which of the stored tuples ``lo:hi`` match one probe.

    ``common`` are the validity bits that all stored tuples have: those need no test.
    """
    size = hi - lo
    for line in code:
        opcode = line[0]
        mask = masks[line[1], :size]
        fresh = line[7] != 0
        if opcode == FILL:
            mask[:] = line[2]
        elif opcode == COMPARE:
            if not probe_valid & (np.uint64(1) << np.uint64(line[5])):
                mask[:] = 0
            elif line[2] == 0:
                _and_compare(narrow[line[3], lo:hi], line[4], probe_narrow[line[5]], mask)
            else:
                _and_compare(wide[line[3], lo:hi], line[4], probe_wide[line[5]], mask)
        elif opcode == BETWEEN_PROBE:
            bits = (np.uint64(1) << np.uint64(line[5])) | (np.uint64(1) << np.uint64(line[6]))
            if probe_valid & bits != bits:
                mask[:] = 0
            elif line[2] == 0:
                low, high = probe_narrow[line[5]], probe_narrow[line[6]]
                _and_between_narrow(narrow[line[3], lo:hi], low, high, mask, fresh)
            else:
                if fresh:
                    mask[:] = 1
                wide_low, wide_high = probe_wide[line[5]], probe_wide[line[6]]
                _and_between_wide(wide[line[3], lo:hi], wide_low, wide_high, mask)
        elif opcode == BETWEEN_STORED:
            if not probe_valid & (np.uint64(1) << np.uint64(line[5])):
                mask[:] = 0
            elif line[2] == 0:
                _and_between_stored(
                    narrow[line[3], lo:hi],
                    narrow[line[4], lo:hi],
                    probe_narrow[line[5]],
                    mask,
                    fresh,
                )
            else:
                _and_between_stored(
                    wide[line[3], lo:hi], wide[line[4], lo:hi], probe_wide[line[5]], mask, fresh
                )
        elif opcode == STORED_BITS:
            bits = np.uint64(line[2])
            if common & bits != bits:
                _and_bits(valid[lo:hi], bits, mask)
        elif opcode == PROBE_BITS:
            if not probe_valid & np.uint64(line[2]):
                mask[:] = 0
        elif opcode == AND_UP:
            above = masks[line[1] + 1, :size]
            for i in range(size):
                mask[i] &= above[i]
        else:
            above = masks[line[1] + 1, :size]
            for i in range(size):
                mask[i] |= above[i]


@_compiled
def _collect(mask, size, ids, first, base, found, at, count):
    """Append the ids and sequence numbers of set places."""
    eights = mask.view(np.uint64)
    for eight in range((size + 7) // 8):
        if eights[eight]:
            for i in range(eight * 8, min(eight * 8 + 8, size)):
                if mask[i]:
                    found[count] = ids[first + i]
                    at[count] = base + first + i
                    count += 1
    return count


@_compiled
def _scan(
    r_code, s_code,
    r_narrow, r_wide, r_valid, r_common, r_ids, r_base,
    s_narrow, s_wide, s_valid, s_common, s_ids, s_base,
    sides, probe_narrow, probe_wide, probe_valid, starts, stops,
    found, at, ends,
):  # fmt: skip
    levels = 1
    for line in r_code:
        levels = max(levels, line[1] + 2)
    for line in s_code:
        levels = max(levels, line[1] + 2)
    masks = np.zeros((levels, BLOCK), np.uint8)
    room = 0
    for group in range(0, len(sides), GROUP):
        need = 0
        for probe in range(group, min(group + GROUP, len(sides))):
            need += stops[probe] - starts[probe]
        room = max(room, need)
    some_ids = np.empty(room, np.uint32)
    some_at = np.empty(room, np.int64)
    total = 0
    for group in range(0, len(sides), GROUP):
        last = min(group + GROUP, len(sides))
        counts = np.zeros(GROUP, np.int64)
        pieces_probe = []
        pieces_count = []
        pieces_probe.append(0)
        pieces_count.append(0)
        some = 0
        for side in range(2):
            first, final = np.int64(1) << 62, np.int64(0)
            for probe in range(group, last):
                if sides[probe] == side and starts[probe] < stops[probe]:
                    first, final = min(first, starts[probe]), max(final, stops[probe])
            base = s_base if side == 0 else r_base
            for block in range(first, final, BLOCK):
                for probe in range(group, last):
                    lo = max(block, starts[probe]) - base
                    hi = min(block + BLOCK, stops[probe]) - base
                    if sides[probe] != side or lo >= hi:
                        continue
                    before = some
                    if side == 0:
                        _run(
                            s_code, s_narrow, s_wide, s_valid, s_common, lo, hi,
                            probe_narrow[probe], probe_wide[probe], probe_valid[probe], masks,
                        )  # fmt: skip
                        some = _collect(masks[0], hi - lo, s_ids, lo, base, some_ids, some_at, some)
                    else:
                        _run(
                            r_code, r_narrow, r_wide, r_valid, r_common, lo, hi,
                            probe_narrow[probe], probe_wide[probe], probe_valid[probe], masks,
                        )  # fmt: skip
                        some = _collect(masks[0], hi - lo, r_ids, lo, base, some_ids, some_at, some)
                    if some > before:
                        pieces_probe.append(probe - group)
                        pieces_count.append(some - before)
                        counts[probe - group] += some - before
        # Pieces lie by block; bring them into the order of the probes.
        places = np.empty(GROUP, np.int64)
        for probe in range(group, last):
            places[probe - group] = total
            total += counts[probe - group]
            ends[probe] = total
        position = 0
        for piece in range(len(pieces_probe)):
            target = places[pieces_probe[piece]]
            for i in range(pieces_count[piece]):
                found[target + i] = some_ids[position + i]
                at[target + i] = some_at[position + i]
            places[pieces_probe[piece]] += pieces_count[piece]
            position += pieces_count[piece]
