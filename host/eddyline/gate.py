"""ScaleGate: many physical streams per side become the one order of arrival.

With a time column the order is (time, R before S, stream number, position), whatever the
interleaving in which rows come in. A row is *ready* when its time is below what every stream has
reached (definition 2 of ScaleJoin, strict): then nothing that sorts before it can still come.
Without a time column the sides take turns. Both gates read only from the stream that holds
everything up, so that what they buffer is a batch per stream (and what lateness must keep).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from eddyline.clock import EARLIEST, LATEST, earlier
from eddyline.errors import DataError, OutOfOrder

__all__ = ["ENDED", "Chunk", "Stream", "TimeGate", "TurnGate"]

# A heartbeat no time can pass: the stream has ended.
ENDED = 1 << 63
# Batches below this size are merged while they wait.
SMALL = 4096
_OTHER = {"r": "s", "s": "r"}


@dataclass(frozen=True)
class Stream:
    """Name of a physical stream: side and number within the side."""

    side: str
    number: int

    @property
    def rank(self) -> tuple[bool, int]:
        return self.side == "s", self.number


@dataclass(frozen=True)
class Chunk:
    """Rows that are ready, in order of arrival.

    ``origins[i]`` indexes ``streams`` and ``rows[i]`` is the row's position in its stream.
    """

    streams: tuple[Stream, ...]
    origins: np.ndarray
    rows: np.ndarray
    times: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sides(self) -> np.ndarray:
        """By index of ``streams``, whether a stream is one of S."""
        return np.array([stream.side == "s" for stream in self.streams], np.uint8)


@dataclass
class _Pending:
    """What one stream has delivered and the gate has not yet released."""

    frontier: int = EARLIEST
    newest: int = EARLIEST
    count: int = 0
    parts: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    buffered: int = 0

    def add(self, times: np.ndarray, rows: np.ndarray) -> None:
        """Keep sorted rows, few parts of growing size, so that a row at a time stays cheap."""
        self.buffered += len(times)
        self.parts.append((times, rows))
        while len(self.parts) > 1 and SMALL > len(self.parts[-1][0]) > len(self.parts[-2][0]) // 2:
            last, before = self.parts.pop(), self.parts.pop()
            times, rows = (np.concatenate(pair) for pair in zip(before, last, strict=True))
            order = np.lexsort((rows, times))
            self.parts.append((times[order], rows[order]))

    def release(self, bound: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Let go of rows below a time; at the end of all streams, of everything."""
        parts, self.parts = self.parts, []
        for times, rows in parts:
            cut = len(times) if bound == ENDED else int(np.searchsorted(times, bound, "left"))
            if cut:
                yield times[:cut], rows[:cut]
            if cut < len(times):
                self.parts.append((times[cut:], rows[cut:]))
            self.buffered -= cut


class TimeGate:
    """Merge timestamped streams into one order.

    Parameters
    ----------
    streams : sequence of Stream
        All physical streams; none can join later.
    lateness : int, optional
        How far times may run backwards within a stream. Rows beyond that are late: ``add``
        returns their positions and never releases them. Without it they are an error.
    sorts : bool
        Whether rows are put in order. If not, they are ready at once, each stream's as it has
        them, and ``watermarks`` tells what can still come; late ones are the same.
    capacity : int
        Most rows buffered. A stream that runs ahead of the others is refused beyond it; the
        stream that holds the others up (``lagging``) is always taken.
    """

    def __init__(
        self,
        streams: Iterable[Stream],
        *,
        lateness: int | None = None,
        sorts: bool = True,
        capacity: int = 1 << 24,
    ):
        self.streams = tuple(sorted(streams, key=lambda stream: stream.rank))
        self._lateness = lateness
        self._sorts = sorts
        self._capacity = capacity
        self._pending = {stream: _Pending() for stream in self.streams}

    @property
    def buffered(self) -> int:
        return sum(pending.buffered for pending in self._pending.values())

    @property
    def lagging(self) -> Stream | None:
        """The stream to read next: nothing can be released before it moves. None at the end."""
        slowest = min(self.streams, key=lambda stream: self._pending[stream].frontier)
        return None if self._pending[slowest].frontier == ENDED else slowest

    def add(self, stream: Stream, times: np.ndarray) -> np.ndarray:
        """Take the times of a stream's next rows; return the positions of late ones.

        Raises
        ------
        DataError
            If a time runs backwards further than allowed, or the gate is full.
        """
        pending = self._pending[stream]
        if pending.frontier == ENDED:
            raise ValueError(f"stream {stream.side}{stream.number} has ended")
        if self.buffered + len(times) > self._capacity and stream != self.lagging:
            raise DataError(
                f"the gate holds {self.buffered} rows and stream {stream.side}{stream.number} runs "
                f"ahead of the others; give the idle ones a heartbeat"
            )
        times = np.asarray(times, np.int64)
        positions = np.arange(pending.count, pending.count + len(times), dtype=np.int64)
        pending.count += len(times)
        if not len(times):
            return positions
        # What each row must not fall below: the largest time before it, less the lateness.
        before = np.maximum.accumulate(np.concatenate([[pending.newest], times[:-1]]))
        floor = np.maximum(earlier(before, self._lateness or 0), pending.frontier)
        late = times < floor
        if self._lateness is None and late.any():
            at = int(np.argmax(late))
            raise OutOfOrder(int(positions[at]), int(times[at]), int(floor[at]))
        # A late row does not count as seen: it lies below the largest time anyway.
        pending.newest = max(pending.newest, int(times.max()))
        pending.frontier = max(
            pending.frontier, int(earlier(np.array([pending.newest]), self._lateness or 0)[0])
        )
        if late.any():
            times, kept = times[~late], positions[~late]
        else:
            kept = positions
        if not self._sorts:
            pending.parts.append((times, kept))
            pending.buffered += len(times)
            return positions[late]
        if self._lateness is not None and len(times):
            order = np.argsort(times, kind="stable")
            times, kept = times[order], kept[order]
        if len(times):
            pending.add(times, kept)
        return positions[late]

    def heartbeat(self, stream: Stream, time: int) -> None:
        """Promise that nothing below ``time`` follows on a stream; ``ENDED`` ends it."""
        pending = self._pending[stream]
        pending.frontier = max(pending.frontier, time)

    def watermarks(self) -> dict[str, int]:
        """Return, for each side, the earliest time that may still come."""
        frontiers: dict[str, list[int]] = {"r": [LATEST], "s": [LATEST]}
        for stream, pending in self._pending.items():
            frontiers[stream.side].append(pending.frontier)
        return {side: min(some) for side, some in frontiers.items()}

    def take(self) -> Chunk:
        """Return what has become ready, possibly nothing."""
        frontiers = [pending.frontier for pending in self._pending.values()]
        bound = min(frontiers) if self._sorts else ENDED
        origins, rows, times = [], [], []
        for index, stream in enumerate(self.streams):
            for ready_times, ready_rows in self._pending[stream].release(bound):
                origins.append(np.full(len(ready_rows), index, np.int32))
                rows.append(ready_rows)
                times.append(ready_times)
        if not rows:
            empty = np.empty(0, np.int64)
            return Chunk(self.streams, empty.astype(np.int32), empty, empty)
        all_times, all_origins, all_rows = (np.concatenate(x) for x in (times, origins, rows))
        if not self._sorts:
            return Chunk(self.streams, all_origins, all_rows, all_times)
        if self._lateness is None:  # by stream already in order of position: a stable sort does
            order = np.argsort(all_times, kind="stable")
        else:
            order = np.lexsort((all_rows, all_origins, all_times))
        return Chunk(self.streams, all_origins[order], all_rows[order], all_times[order])


class TurnGate:
    """Take rows alternately, R first; the streams of a side take turns; skip ended streams."""

    def __init__(self, streams: Iterable[Stream]):
        self.streams = tuple(sorted(streams, key=lambda stream: stream.rank))
        self._waiting = dict.fromkeys(self.streams, 0)
        self._taken = dict.fromkeys(self.streams, 0)
        self._ended: set[Stream] = set()
        # Streams of a side in the order of their next turns.
        self._line = {side: [one for one in self.streams if one.side == side] for side in "rs"}
        self._turn = "r"

    @property
    def buffered(self) -> int:
        return sum(self._waiting.values())

    @property
    def lagging(self) -> Stream | None:
        """The stream whose turn it is. None at the end."""
        line = self._line[self._turn] or self._line[_OTHER[self._turn]]
        return line[0] if line else None

    def add(self, stream: Stream, count: int) -> None:
        """Announce the next ``count`` rows of a stream."""
        self._waiting[stream] += count

    def end(self, stream: Stream) -> None:
        """Announce that a stream has ended; what it has delivered is still taken."""
        self._ended.add(stream)
        self._drop_finished(stream.side)

    def take(self) -> Chunk:
        """Return what is ready, possibly nothing."""
        self._turn = self._turn if self._line[self._turn] else _OTHER[self._turn]
        first, second = self._turn, _OTHER[self._turn]
        mine, others = self._side_order(first), self._side_order(second)
        a, b = len(mine), len(others)
        # first[i] is taken at place 2i, second[i] at 2i + 1, up to the first that is missing.
        if a <= b:
            taken_first, taken_second, missing = a, a, first
        else:
            taken_first, taken_second, missing = b + 1, b, second
        if self._finishes(missing, a if missing == first else b):  # the rest follows on its own
            taken_first, taken_second = a, b
        mine, others = mine[:taken_first], others[:taken_second]
        rows = _alternating(self._advance(first, mine), self._advance(second, others))
        self._turn = second if taken_first > taken_second else first
        origins = _alternating(mine, others)
        return Chunk(self.streams, origins, rows, np.zeros(len(rows), np.int64))

    def _side_order(self, side: str) -> np.ndarray:
        """Return the streams (as indices) of a side's next rows, up to one that must be awaited."""
        line = self._line[side]
        if not line:
            return np.empty(0, np.int32)
        # More than this cannot be taken before the other side has to deliver again.
        others = self._line[_OTHER[side]]
        most = 1 + sum(self._waiting[stream] for stream in others)
        if all(stream in self._ended for stream in others):
            most = max(self._waiting.values())
        if len(line) == 1:
            return np.full(min(self._waiting[line[0]], most), self.streams.index(line[0]), np.int32)
        rounds = [np.arange(min(self._waiting[stream], most)) for stream in line]
        places = [np.full(len(one), place) for place, one in enumerate(rounds)]
        keys = np.concatenate(rounds) * len(line) + np.concatenate(places)
        blocked = [
            self._waiting[stream] * len(line) + place
            for place, stream in enumerate(line)
            if stream not in self._ended
        ]
        keys = np.sort(keys[keys < min(blocked)] if blocked else keys)
        index = np.array([self.streams.index(stream) for stream in line], np.int32)
        return index[keys % len(line)]

    def _finishes(self, side: str, available: int) -> bool:
        """Tell whether a side has ended and everything it has left is available."""
        line = self._line[side]
        return all(stream in self._ended for stream in line) and available == sum(
            self._waiting[stream] for stream in line
        )

    def _advance(self, side: str, origins: np.ndarray) -> np.ndarray:
        """Count rows as taken; return their positions in their streams."""
        rows = np.empty(len(origins), np.int64)
        line = self._line[side]
        turns = {}
        for place, stream in enumerate(line):
            mine = origins == self.streams.index(stream)
            count = int(mine.sum())
            rows[mine] = self._taken[stream] + np.arange(count)
            self._taken[stream] += count
            self._waiting[stream] -= count
            turns[stream] = (count, place)
        self._line[side] = sorted(line, key=lambda stream: turns[stream])
        self._drop_finished(side)
        return rows

    def _drop_finished(self, side: str) -> None:
        self._line[side] = [
            one for one in self._line[side] if one not in self._ended or self._waiting[one]
        ]


def _alternating(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Take values in turns; what one side has more of follows at the end."""
    both = min(len(first), len(second))
    values = np.empty(len(first) + len(second), first.dtype)
    values[0 : 2 * both : 2], values[1 : 2 * both : 2] = first[:both], second[:both]
    values[2 * both :] = first[both:] if len(first) > both else second[both:]
    return values
