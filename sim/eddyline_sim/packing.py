"""Payloads as rows of 32-bit words, from and to columns of numbers."""

from collections.abc import Mapping

import numpy as np
from amaranth.lib import data

__all__ = ["pack", "unpack"]

WORD = 32


def pack(layout: data.Layout, columns: Mapping[str, np.ndarray | int], count: int) -> np.ndarray:
    """Return ``count`` payloads of a layout, least significant word first.

    ``columns`` names fields by their path, such as ``entry.r.id``; fields left out are zero.
    """
    rows = np.zeros((count, -(-layout.size // WORD)), np.uint32)
    for path, values in columns.items():
        offset, width = _field(layout, path)
        values = np.asarray(values, np.uint64)
        done = 0
        while done < width:
            word, shift = divmod(offset + done, WORD)
            bits = min(width - done, WORD - shift)
            part = (values >> np.uint64(done)) & np.uint64((1 << bits) - 1)
            rows[:, word] |= (part << np.uint64(shift)).astype(np.uint32)
            done += bits
    return rows


def unpack(layout: data.Layout, rows: np.ndarray, path: str) -> np.ndarray:
    """Return one field of every payload, as 64-bit numbers."""
    offset, width = _field(layout, path)
    values = np.zeros(len(rows), np.uint64)
    done = 0
    while done < width:
        word, shift = divmod(offset + done, WORD)
        bits = min(width - done, WORD - shift)
        part = (rows[:, word] >> np.uint32(shift)).astype(np.uint64) & np.uint64((1 << bits) - 1)
        values |= part << np.uint64(done)
        done += bits
    return values


def _field(layout: data.Layout, path: str) -> tuple[int, int]:
    offset = 0
    for name in path.split("."):
        field = layout[name]
        offset += field.offset
        layout = field.shape
    width = field.width
    if width > 64:
        raise ValueError(f"field {path!r} has {width} bits, more than 64")
    return offset, width
