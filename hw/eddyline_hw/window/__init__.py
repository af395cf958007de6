"""Windows of the lock-step chain: the last tuples of one side, read some lanes at a time."""

from eddyline_hw.window.ring import RingWindow
from eddyline_hw.window.shift import ShiftWindow

__all__ = ["KINDS", "RingWindow", "ShiftWindow", "kind_for", "make_window"]

KINDS = ("auto", "shift", "lutram", "bram")
# A slot costs a flip-flop per bit in a shift register, and every row a multiplexer input.
MOST_SHIFTED = 4
# ECP5 lookup-table memory has 16 words; beyond a few of them block RAM is smaller and faster.
MOST_ROWS_IN_LUTRAM = 64


def kind_for(slots, lanes):
    """Return the kind of window that suits a size.

    A shift register serves the smallest windows, look-up-table RAM the middle and block RAM the
    large ones. With as many lanes as slots only the shift register is fast enough.
    """
    rows = -(-slots // lanes)
    if rows < RingWindow.LEAST_ROWS or slots <= MOST_SHIFTED:
        return "shift"
    return "lutram" if rows <= MOST_ROWS_IN_LUTRAM else "bram"


def make_window(shape, *, slots, lanes, kind="auto"):
    """Return a window of the given kind, or of the one that suits its size."""
    if kind not in KINDS:
        raise ValueError(f"no window kind {kind!r} (known: {', '.join(KINDS)})")
    if kind == "auto":
        kind = kind_for(slots, lanes)
    if kind == "shift":
        return ShiftWindow(shape, slots=slots, lanes=lanes)
    return RingWindow(shape, slots=slots, lanes=lanes, memory=kind)
