"""Cycles of the handshake join's gateware: per tuple, and how busy the comparators are.

The streams are long against the windows and nothing matches, so that the table shows the chain and
not the results; flushing is counted.
"""

from collections.abc import Iterator
from math import ceil

import numpy as np

from eddyline.device import Tuples
from eddyline.device.sim_handshake import HandshakeDevice
from eddyline.plan import Compare, Layout, Order, Plan, Window, Word

CONFIGURATIONS = [(1, 64, 1), (4, 16, 1), (4, 16, 4), (8, 8, 1), (8, 8, 4), (8, 8, 8), (16, 8, 4)]
WINDOWS = 24  # length of the streams, in windows


def measure() -> Iterator[str]:
    yield "| chain | cores | segment | P | promised | cycles per tuple | comparators busy |"
    yield "|---|---|---|---|---|---|---|"
    for chain in ("lockstep", "asynchronous"):
        for cores, segment, lanes in CONFIGURATIONS:
            counters = run(chain, cores, segment, lanes)
            yield (
                f"| {chain} | {cores} | {segment} | {lanes} | {max(1, ceil(segment / lanes))} "
                f"| {counters['cycles_per_tuple']:.2f} | {counters['comparator_duty']:.1%} |"
            )


def run(chain: str, cores: int, segment: int, lanes: int) -> dict[str, int | float]:
    """Join two streams that have nothing in common; return the device's counters."""
    word = Layout((Word("w0", 32, False, "x"),), ())
    window = Window("rows", cores * segment)
    plan = Plan(word, word, Compare(0, "eq", 0), window, window, Order("none"), False)
    count = WINDOWS * window.size // 2
    sides = np.tile(np.array([0, 1], np.uint8), count)
    records = [np.zeros(count, np.dtype(word.fields)) for _ in "rs"]
    for number, side in enumerate(records):
        side["id"], side["w0"], side["valid"] = np.arange(count), number, 1
    with HandshakeDevice(cores=cores, comparators=lanes, chain=chain) as device:  # type: ignore[arg-type]
        device.configure(plan)
        device.push(Tuples(sides, *records))
        while not device.pull().nothing:
            pass
        device.flush()
        return device.counters()
