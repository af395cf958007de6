"""Put the results of a handshake chain back into the order that the plan asks for.

A chain compares two tuples when they meet on the way, which may be long after the later one has
arrived. A star says that all comparisons made so far have come out; which ones those are follows
from the chain's geometry. An arrival is *closed* once it has met the newest tuple that was there
before it: older ones are further ahead and came by earlier. For the same reason the arrivals of one
side close in order.
"""

from bisect import bisect_left
from functools import partial

import numpy as np

from eddyline.device import Results, Tuples, no_results
from eddyline.device.held import Held
from eddyline.device.stars import left_open, star_positions
from eddyline.errors import DeviceError
from eddyline.plan import Plan, Window
from eddyline_hw.handshake.geometry import Chain

__all__ = ["Reorder"]


class _Side(Held):
    """One side's tuples.

    ``arrival`` is a tuple's number over both sides, ``before`` how many of the other side came
    before it.
    """

    def __init__(self, window: Window):
        super().__init__(window, "chain", (("arrival", "<i8"), ("before", "<i8")))

    def first_from(self, arrival: int) -> int:
        """Return the sequence number of this side's first tuple from an arrival on."""
        return self.base + int(np.searchsorted(self.held["arrival"], arrival))

    def between(self, first: int, last: int) -> np.ndarray:
        """Return this side's tuples from arrival ``first`` to before arrival ``last``."""
        start, stop = np.searchsorted(self.held["arrival"], (first, last))
        return self.held[start:stop]

    def before(self, number: int) -> int:
        return int(self.held["before"][number - self.base])


class Reorder:
    """Match a chain's answers with what was pushed, and hand them over in the plan's order.

    Tuples are numbered per side, from zero since the last flush; the chain answers with these
    numbers modulo a power of two. Memory holds the chain's windows, the arrivals that are not
    closed (never more than the chain has slots, beside the last push) and the pairs that wait.

    Parameters
    ----------
    plan : Plan
        The join: its windows and its order.
    chain : Chain
        The geometry; its windows hold at least what the plan's windows do.
    limit : int
        Pairs that may wait for their turn. Order ``none`` makes none wait.
    bits : int
        Width of the chain's sequence numbers.
    lossy : bool
        The chain may drop tuples on the way in. Nobody knows which, and so not where the others
        are: arrivals are closed and forgotten only by a flush.
    """

    def __init__(
        self,
        plan: Plan,
        chain: Chain,
        *,
        limit: int = 1 << 24,
        bits: int = 32,
        lossy: bool = False,
    ):
        self._plan = plan
        self._chain = chain
        self._limit = limit
        self._bits = bits
        self._lossy = lossy
        self._flushed = 0
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []
        self.waiting = 0
        self._start_again()

    def _start_again(self) -> None:
        self._sides = (_Side(self._plan.window_r), _Side(self._plan.window_s))
        self._arrivals = self._closed = 0

    def arrive(self, tuples: Tuples) -> None:
        """Note tuples that go into the chain.

        Raises
        ------
        DeviceError
            If there are more of them than sequence numbers; take results before more arrive.
        """
        numbers = self._arrivals + np.arange(len(tuples))
        grown = []
        for number, records in enumerate((tuples.r, tuples.s)):
            mine, side, other = tuples.sides == number, self._sides[number], self._sides[1 - number]
            new = np.empty(len(records), side.held.dtype)
            new["id"], new["time"], new["arrival"] = records["id"], records["time"], numbers[mine]
            new["before"] = other.count + np.cumsum(~mine)[mine]
            grown.append(np.concatenate([side.held, new]))
            if len(grown[-1]) > 1 << self._bits:
                raise DeviceError(
                    f"{len(grown[-1])} tuples of {'RS'[number]} are in the chain or on their way, "
                    f"more than sequence numbers of {self._bits} bits tell apart: push fewer at a "
                    "time or use smaller windows"
                )
        for side, held in zip(self._sides, grown, strict=True):
            side.held = held
        self._arrivals += len(tuples)

    def add(self, r_seq: np.ndarray, s_seq: np.ndarray) -> None:
        """Take pairs as they come out of the chain, in any order.

        Raises
        ------
        DeviceError
            If more pairs wait than the limit allows, or if a pair cannot be right.
        """
        r, s = self._sides
        r_at, s_at = r.places(r_seq, bits=self._bits), s.places(s_seq, bits=self._bits)
        r_came, s_came = r.held["arrival"][r_at], s.held["arrival"][s_at]
        later = np.maximum(r_came, s_came)
        if later.min(initial=self._closed) < self._closed:
            raise DeviceError(
                f"the device found a pair of arrival {self._flushed + int(later.min())} after a "
                f"star that closed the first {self._flushed + self._closed}"
            )
        if self._plan.order.kind == "none":
            self._pairs.append((r.held["id"][r_at], s.held["id"][s_at]))
            return
        self.waiting += len(later)
        if self.waiting > self._limit:
            order = self._plan.order
            asked = f"{order.kind}:{order.every}" if order.every else order.kind
            raise DeviceError(
                f"{self.waiting} pairs wait for their turn in the order {asked}, more than the "
                f"{self._limit} there is room for: use smaller windows, --order none, or another "
                "device"
            )
        self._pairs.append((later, np.where(r_came > s_came, s.base + s_at, r.base + r_at)))

    def take(self) -> Results:
        """Return everything that may be handed over, after a star behind all arrivals so far."""
        return self._hand_over(self._closed if self._lossy else self._now_closed())

    def flush(self) -> Results:
        """Return everything else, after the chain has been flushed; start from empty windows."""
        results = self._hand_over(self._arrivals)
        if left_open(self._plan.order, self._arrivals):
            stars = np.append(results.stars, len(results))
            results = Results(results.r_id, results.s_id, stars, results.closed)
        self._flushed += self._arrivals
        self._start_again()
        return results

    def _now_closed(self) -> int:
        """Return how many arrivals, from the first on, have met all their partners."""
        counts = self._sides[0].count, self._sides[1].count

        def is_open(side: int, number: int) -> bool:
            newest = self._sides[side].before(number) - 1
            r, s = (newest, number) if side else (number, newest)
            return newest >= 0 and not self._chain.met(r, s, *counts)

        closed = self._arrivals
        for side, one in enumerate(self._sides):
            candidates = range(one.first_from(self._closed), one.count)
            passed = bisect_left(candidates, True, key=partial(is_open, side))
            if passed < len(candidates):
                closed = min(closed, int(one.held["arrival"][candidates[passed] - one.base]))
        return closed

    def _hand_over(self, closed: int) -> Results:
        first, self._closed = self._closed, closed
        if self._plan.order.kind == "none":
            results = self._as_they_came(advanced=closed > first)
        elif closed > first:
            results = self._in_order(first)
        else:
            results = no_results(self._flushed + closed)
        if closed > first:
            self._forget()
        return results

    def _as_they_came(self, *, advanced: bool) -> Results:
        """Return all pairs; a star also shows a caller that arrivals without pairs are closed."""
        pairs, self._pairs = self._pairs, []
        nothing = np.empty(0, np.uint32)
        r_id = np.concatenate([nothing, *(r for r, _ in pairs)])
        s_id = np.concatenate([nothing, *(s for _, s in pairs)])
        stars = np.full(int(advanced or len(r_id) > 0), len(r_id), np.int64)
        return Results(r_id, s_id, stars, self._flushed + self._closed)

    def _in_order(self, first: int) -> Results:
        """Return the pairs of arrivals from ``first`` to those that have just been closed."""
        later, partner = self._ready()
        count = self._closed - first
        sides, own = np.empty(count, np.uint8), np.empty(count, np.uint32)
        starts, stops = np.empty(count, np.int64), np.empty(count, np.int64)
        found = np.empty(len(later), np.uint32)
        for side, one in enumerate(self._sides):
            other = self._sides[1 - side]
            closing = one.between(first, self._closed)
            at = closing["arrival"] - first
            sides[at], own[at], stops[at] = side, closing["id"], closing["before"]
            starts[at] = other.window_starts(closing["before"], closing["time"])
        owner = later - first
        for side in (0, 1):
            mine = sides[owner] == side
            other = self._sides[1 - side]
            found[mine] = other.held["id"][partner[mine] - other.base]
        ends = np.cumsum(np.bincount(owner, minlength=count))
        from_r = sides[owner] == 0
        return Results(
            np.where(from_r, own[owner], found),
            np.where(from_r, found, own[owner]),
            star_positions(self._plan.order, first, starts, stops, partner, ends),
            self._flushed + self._closed,
        )

    def _ready(self) -> tuple[np.ndarray, np.ndarray]:
        """Take the pairs of closed arrivals out, sorted by arrival and by partner."""
        nothing = np.empty(0, np.int64)
        later = np.concatenate([nothing, *(one for one, _ in self._pairs)])
        partner = np.concatenate([nothing, *(one for _, one in self._pairs)])
        ready = later < self._closed
        self._pairs = [(later[~ready], partner[~ready])]
        self.waiting = len(self._pairs[0][0])
        later, partner = later[ready], partner[ready]
        order = np.lexsort((partner, later))
        return later[order], partner[order]

    def _forget(self) -> None:
        """Forget the tuples that no result to come can name."""
        opening = [one.first_from(self._closed) for one in self._sides]
        windows = (self._chain.window_r, self._chain.window_s)
        for side, one in enumerate(self._sides):
            other = self._sides[1 - side]
            # The first open arrival of the other side looks back furthest.
            first = opening[1 - side]
            seen = other.before(first) if first < other.count else one.count
            one.forget(min(opening[side], seen - windows[side]))
