"""Handshake join on processes: figures 8 and 9, throughput against the number of cores.

As in the paper, windows span a fixed time and the rate of both streams is what can be sustained:
twice the rate is four times the comparisons, so n cores can at best carry sqrt(n) times the rate.
A window of 10 minutes is scaled down to half a second. The rate is what the busiest process would
sustain on a core of its own, from its processor time (dispatcher included); what the clock on the
wall says, with the cores there are, is printed beside it.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import pyarrow as pa

from eddyline.api import make_query
from eddyline.device import Tuples
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.plan import Plan, Window
from eddyline.streams import BAND_2D, SplitJoin
from eddyline.twin import HandshakeTwin

SPAN = 0.5
ROWS = 1 << 18
TURNS = 3
PROCESSES = (1, 2, 4)
FIRST_GUESS = {"nested": 21_000, "merge": 37_000}
BATCH = 1 << 14


@dataclass(frozen=True)
class Rates:
    """Tuples per second and stream with windows of ``SPAN``: by processor time, by the wall."""

    busiest: float
    wall: float


def measure() -> Iterator[str]:
    plan, r, s = _streams()
    cores = len(os.sched_getaffinity(0))
    yield f"{cores} cores; windows of {SPAN} s, {BAND_2D}"
    for figure, local in (("figure 8", "nested"), ("figure 9", "merge")):
        guess, alone = FIRST_GUESS[local], None
        for processes in PROCESSES:
            rates, guess = _sustained(plan, r, s, local, processes, guess)
            alone = alone or rates
            ratio = rates.busiest / alone.busiest
            # The dispatcher is one process more, and seldom busy.
            crowded = ", oversubscribed" if processes > cores else ""
            yield (
                f"{figure}, {local:6} n = {processes}: {rates.busiest / 1e3:5.1f} k tuples/s and "
                f"stream, {ratio:.2f} x one process, {ratio / sqrt(processes):.2f} of sqrt(n) "
                f"(wall: {rates.wall / alone.wall:.2f} x{crowded})"
            )
            if (local, processes) == ("nested", 2):
                step, _ = _sustained(plan, r, s, local, processes, guess, chain="lockstep")
                yield (
                    f"lock step, nested n = 2: {step.busiest / rates.busiest:.2f} x asynchronous "
                    f"(wall: {step.wall / rates.wall:.2f} x)"
                )
            guess = int(guess * sqrt(2))


def _streams() -> tuple[Plan, np.ndarray, np.ndarray]:
    made = SplitJoin(ROWS, seed=1)
    tables = {side: pa.Table.from_batches(made.batches(side)) for side in "rs"}
    query = make_query(tables["r"].schema, tables["s"].schema, BAND_2D)
    r, s = (
        SideEncoder(query.lowering.side(side), Dictionary(), side=side).encode(
            table.combine_chunks().to_batches()[0]
        )
        for side, table in tables.items()
    )
    return query.plan, r, s


def _sustained(
    plan: Plan,
    r: np.ndarray,
    s: np.ndarray,
    local: str,
    processes: int,
    guess: int,
    *,
    chain: str = "asynchronous",
) -> tuple[Rates, int]:
    """Return the rate that fills a window in the time that it takes to join it, and the window."""
    with HandshakeTwin(plan, processes=processes, chain=chain, local=local) as twin:
        for _ in range(2):
            rates = _run(twin, plan, r, s, guess)
            window = min(int(rates.busiest * SPAN), ROWS // TURNS)
            if 0.8 < window / guess < 1.25:
                break
            guess = window
        return rates, window


def _run(twin: HandshakeTwin, plan: Plan, r: np.ndarray, s: np.ndarray, window: int) -> Rates:
    """Fill the windows and replace them; turn time and comparisons into a rate."""
    rows = Window("rows", window)
    twin.configure(replace(plan, window_r=rows, window_s=rows))
    own, wall = time.process_time(), time.perf_counter()
    for start in range(0, TURNS * window, BATCH):
        part = slice(start, min(start + BATCH, TURNS * window))
        sides = np.tile(np.array([0, 1], np.uint8), part.stop - part.start)
        twin.push(Tuples(sides, r[part], s[part]))
    twin.flush()
    wall = time.perf_counter() - wall
    busy = [float(twin.counters()[f"busy_seconds_{place}"]) for place in range(twin.processes)]
    busiest = max(time.process_time() - own, *busy)
    # A window of each side is compared with half a window while both fill, then with a full one.
    comparisons = (2 * TURNS - 1) * window * window
    return Rates(*(sqrt(comparisons / (2 * SPAN * seconds)) for seconds in (busiest, wall)))
