"""Codes for strings, so that a device compares words.

A code stays with its string for as long as a window may hold it, and is given to another string
afterwards: the memory is that of the windows, not of the stream.
"""

import numpy as np
import pyarrow as pa

from eddyline.errors import DataError
from eddyline.query.types import numbers

__all__ = ["Dictionary"]

NEVER = np.iinfo(np.int64).min
# Looking for strings to forget begins at this many.
FIRST_CHECK = 1024


class Dictionary:
    """String codes shared by both sides.

    A device sees tuples in arrival order, so a code may be reused for an arrival as soon as its
    old string is outside both windows at that arrival.
    """

    def __init__(self, *, most: int = 1 << 32):
        self._most = most
        self._codes: dict[str, int] = {}
        self._free: list[int] = []
        self._used = 0
        self._check_at = FIRST_CHECK
        # By side and code: sequence number and time of the last tuple that carried the string.
        self._seen = {side: np.full(1024, NEVER, np.int64) for side in ("r", "s")}
        self._when = {side: np.full(1024, NEVER, np.int64) for side in ("r", "s")}

    def __len__(self) -> int:
        return len(self._codes)

    def encode(
        self, side: str, column: pa.Array, first: int, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes of a column and where they are valid."""
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.large_string()).dictionary_encode()
        positions = numbers(column.indices.fill_null(0))
        values = column.dictionary.to_pylist()
        valid = numbers(column.is_valid())
        present = np.zeros(len(values), bool)
        present[positions[valid]] = True
        table = np.zeros(max(1, len(values)), np.uint32)
        for place in np.flatnonzero(present).tolist():
            value = values[place]
            if value is None:  # a dictionary may hold NULL among its values
                valid &= positions != place
            else:
                table[place] = self._code(value)
        codes = table[positions]
        held = codes[valid]
        # The latest use counts, and another column of the same rows may have noted a later one.
        np.maximum.at(self._seen[side], held, first + np.flatnonzero(valid))
        np.maximum.at(self._when[side], held, times[valid])
        return codes, valid

    def _code(self, value: str) -> int:
        code = self._codes.get(value)
        if code is None:
            if not self._free and self._used == self._most:
                raise DataError(
                    f"more than {self._most} different strings are in the windows: shorten them"
                )
            code = self._free.pop() if self._free else self._used
            self._used = max(self._used, code + 1)
            self._codes[value] = code
            while code >= len(self._seen["r"]):
                for table in (self._seen, self._when):
                    for side, old in table.items():
                        table[side] = np.concatenate([old, np.full(len(old), NEVER, np.int64)])
        return code

    def evict(self, first_seen: dict[str, int], first_time: dict[str, int]) -> None:
        """Forget strings that no window holds any more.

        A tuple of a side is in its window when its sequence number is at least ``first_seen`` and
        its time at least ``first_time``. Costs a scan, but only after the dictionary has doubled.
        """
        if len(self._codes) < self._check_at:
            return
        held = np.zeros(len(self._seen["r"]), bool)
        for side in ("r", "s"):
            seen, when = self._seen[side], self._when[side]
            held |= (seen != NEVER) & (seen >= first_seen[side]) & (when >= first_time[side])
        for value, code in list(self._codes.items()):
            if not held[code]:
                del self._codes[value]
                self._free.append(code)
                for side in ("r", "s"):
                    self._seen[side][code] = self._when[side][code] = NEVER
        self._check_at = max(FIRST_CHECK, 2 * len(self._codes))
