"""Our model of a fast-forwarding handshake join; nobody has published one in gateware.

Section 6.1 of the SplitJoin paper sketches the low-latency handshake join (figure 10): R enters a
chain of cores at one end, S at the other, and a core hands a tuple on before it compares it. This
models a chain of that kind cycle by cycle, with cores as fast as SplitJoin's:

- handing a tuple to the neighbour takes ``LINK`` cycles (T_CL), and looking for a tuple of the
  other stream on the same link ``MONITOR`` cycles (T_ML);
- a core has one scanner, takes tuples in the order in which they reach it, and needs ``rows``
  cycles for each (w * T_P);
- results leave through the same tree as SplitJoin's (T_Col), which is kinder than the linear
  collector of the original.

Expiry messages and the central coordinator cost nothing here, as in the paper's analysis.
"""

from collections import deque
from dataclasses import dataclass

__all__ = ["LINK", "MONITOR", "FastForward", "Outcome"]

LINK, MONITOR = 1, 1


@dataclass(frozen=True)
class Outcome:
    """When each arrival was complete at the output, and the mean wait for a comparison."""

    processing: list[int]
    visiting: float


class FastForward:
    """A chain of ``cores`` that need ``rows`` cycles for a tuple.

    ``around`` are the cycles of entrance, comparators and exit, ``collect`` those of the tree.
    ``before`` is the part of ``around`` that lies before the comparators; it is no part of
    ``visiting`` yet.
    """

    def __init__(self, *, cores: int, rows: int, around: int, collect: int):
        self.cores = cores
        self.rows = rows
        self.around = around
        self.collect = collect
        self.before = 0.0

    def run(self, arrivals: list[tuple[int, str]]) -> Outcome:
        """Send tuples, each a cycle and a side, in this order."""
        last = self.cores - 1
        # Tuples on the links towards each core and when they arrive; scans waiting at each core.
        links = {(side, core): deque() for side in "rs" for core in range(self.cores)}  # type: ignore[var-annotated]
        waiting: list[deque[int]] = [deque() for _ in range(self.cores)]
        scanned: list[int | None] = [None] * self.cores
        left = [0] * self.cores
        missing = [self.cores] * len(arrivals)
        processing = [0] * len(arrivals)
        waits = comparisons = 0
        coming = deque(enumerate(arrivals))
        now = 0
        while any(missing):
            while coming and coming[0][1][0] <= now:
                number, (_, side) = coming.popleft()
                links[side, 0 if side == "r" else last].append((now + LINK, number))
            for core in range(self.cores):
                # The monitor looks at both links at once.
                for side, step in (("r", 1), ("s", -1)):
                    link = links[side, core]
                    if link and link[0][0] <= now:
                        _, number = link.popleft()
                        waiting[core].append(number)
                        if 0 <= core + step <= last:
                            links[side, core + step].append((now + MONITOR + LINK, number))
                if scanned[core] is None and waiting[core]:
                    scanned[core], left[core] = waiting[core].popleft(), self.rows
            for core, scan in enumerate(scanned):
                if scan is None:
                    continue
                waits += now - arrivals[scan][0]
                comparisons += 1
                left[core] -= 1
                if left[core] == 0:
                    scanned[core] = None
                    missing[scan] -= 1
                    if missing[scan] == 0:
                        done = now + 1 + self.around + self.collect
                        processing[scan] = done - arrivals[scan][0]
            now += 1
        return Outcome(processing, waits / comparisons)
