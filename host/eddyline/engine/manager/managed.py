"""The manager: an engine whose work is done by worker processes."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from eddyline.device import Tuples
from eddyline.engine.choice import choose
from eddyline.engine.indexed import IndexedJoin, library
from eddyline.engine.manager.collector import Collector
from eddyline.engine.manager.crew import Crew
from eddyline.engine.manager.ledger import Batch, Status
from eddyline.engine.manager.link import Gone, Message
from eddyline.engine.manager.mirror import Mirror
from eddyline.engine.manager.outlet import Outlet
from eddyline.engine.manager.output import Piece, in_order, part_of
from eddyline.engine.manager.places import Places
from eddyline.engine.manager.sharing import Sharing, sharing
from eddyline.engine.manager.watch import Watch
from eddyline.engine.part import Held, Part
from eddyline.errors import DeviceError
from eddyline.plan import Plan

__all__ = ["ManagedJoin"]

logger = logging.getLogger(__name__)

BATCH = 1 << 15  # arrivals of a batch, at the most
# Batches that workers have at a time: one to work on, one to find when they have done it. The
# mirror counts on it that there are no more.
DEPTH = 2
# Pairs of a batch for which there should be room; where arrivals have many, batches get smaller.
PAIRS = 1 << 22
NOTHING = np.empty(0, np.int64)


class ManagedJoin:
    """A join that worker processes share (PanJoin, section III-A).

    Arrivals are collected in batches. Each tuple is stored by one worker, and a batch goes to the
    workers that store some of it or hold something to compare it with; the others only learn,
    later, how many tuples have passed. What a worker has found for a batch is handed over when it
    has answered, whatever the others do; if the plan asks for an order, when all have answered, and
    merged. When a worker dies, another takes its place, stores what that had stored, and does again
    what was not answered; so every pair is handed over exactly once. A death is noticed at once: by
    whoever waits for results, or by a thread that watches the workers while nobody does.

    An :class:`eddyline.engine.part.Engine`, and a context manager.

    Parameters
    ----------
    plan : Plan
        What to join.
    workers : int
        Processes.
    share : str or Sharing
        Who stores what: ``subwindows`` or ``tuples``, both round robin.
    engine : str
        How a worker searches its share; see :func:`eddyline.engine.choice.choose`.
    threads : int
        Threads of each worker.
    subwindows : int
        Subwindows per window, over all workers; 0 to choose.
    batch : int
        A batch is closed when it has so many arrivals.
    linger : float
        A batch is closed by the first ``pull`` so many seconds after its first arrival.
    outlet : Outlet, optional
        Where workers put their results, for a consumer in another process. Parts that are pulled
        here then have no pairs, and only tell what is closed. Not where an order is asked for.
    crew : Crew, optional
        Workers to use; they are not ended with the join.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        workers: int = 2,
        share: str | Sharing = "subwindows",
        engine: str = "auto",
        threads: int = 1,
        subwindows: int = 0,
        batch: int = BATCH,
        linger: float = 0,
        outlet: Outlet | None = None,
        crew: Crew | None = None,
        progress: Callable[[str], None] | None = None,
    ):
        self._collector = Collector(batch, linger)
        self._ordered = plan.order.kind != "none"
        if outlet and self._ordered:
            raise ValueError(f"results in {plan.order.kind} order pass the output gate: no outlet")
        self._outlet = outlet
        choice = choose(plan, engine)
        if choice.compiled:
            library(progress)  # one process compiles it, not all of them
        self._plan = plan
        self._own = None if crew else Crew(workers)
        self._crew = crew or self._own
        each = -(-subwindows // len(self.crew))
        self._maker: IndexedJoin | None = None
        if choice.paths and choice.compiled:
            self._maker = IndexedJoin(
                plan, choice.paths, engine=choice.engine, shares=len(self.crew)
            )
        if isinstance(share, str):
            share = sharing(share, plan, len(self.crew), each)
        self._sharing = share
        configuration = {
            "do": "configure",
            "plan": plan.to_json(),
            "engine": choice.engine,
            "threads": threads,
            "subwindows": each,
            "shares": len(self.crew),
        }
        self._mirror = Mirror(plan)
        self._live = (0, 0)
        self._ending = False
        self._flight: deque[Batch] = deque()
        self._ready: deque[Part] = deque()
        self._batches = self._closed = self._tuples = self._results = 0
        # Whoever has it is the one who sends, hears and mends.
        self._turn = threading.RLock()
        self._failure: Exception | None = None
        self._watch: Watch | None = None
        self._places = Places(self.crew, self._mirror, configuration, outlet)
        self._mend()
        self._watch = Watch(self)

    def __enter__(self) -> "ManagedJoin":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and let shared memory go; doing so again is harmless."""
        with self._turn:
            if self._crew and self._outlet:
                self._outlet.end()
        self._let_go()
        if self._watch:
            self._watch.close()

    def _let_go(self) -> None:
        with self._turn:
            if self._own:
                self._own.close()
            self._mirror.close()
            if self._maker:
                self._maker.close()
            self._crew = None

    @property
    def crew(self) -> Crew:
        if self._crew is None and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._crew is None:
            raise DeviceError("this join is closed; start another one")
        return self._crew

    def push(self, tuples: Tuples) -> None:
        with self._turn:
            self._listen(0)
            self._ending = False
            self._collector.add(tuples)
            self._tuples += len(tuples)
            self._send_full()

    def pull(self) -> Part | None:
        """Return the next part of the results, or None if no batch is closed and unanswered."""
        with self._turn:
            return self._next()

    def _next(self) -> Part | None:
        while True:
            if self._ready:
                return self._ready.popleft()
            self._send_full()
            if not self._flight and (self._collector.due() or (self._ending and self._collector)):
                self._send(self._collector.take())
            if not self._flight:
                self._listen(0)
                return None
            self._listen(None)

    def end(self) -> None:
        """Say that nothing more comes for now: the next ``pull`` closes the last batch."""
        self._ending = True

    def flush(self) -> None:
        with self._turn:
            self._flush()

    def _flush(self) -> None:
        self._collector.clear()
        while self._flight:
            self._listen(None)
        self._ready.clear()
        self._mirror.clear()
        self._sharing.reset()
        self._live = (0, 0)
        for place in range(len(self.crew)):
            self._places[place].newest = [-1, -1]
            self._places.tell(place, {"do": "flush"})
        self._mend()

    def report(self) -> dict[str, int]:
        with self._turn:
            self._listen(0)
        done = [place.status.comparisons for place in self._places]
        return {
            "tuples": self._tuples,
            "results": self._results,
            "comparisons": sum(done),
            **{f"comparisons_{place}": count for place, count in enumerate(done)},
            "batches": self._batches,
            "restarts": self._places.restarts,
        }

    def status(self) -> list[Status]:
        """Return what each worker said of itself with its last results."""
        return [place.status for place in self._places]

    # Collecting, preprocessing, sending.

    def _send_full(self) -> None:
        """Send batches that are full, while workers want more and results are pulled."""
        while self._collector.full() and len(self._flight) < DEPTH and not self._ready:
            self._send(self._collector.take())

    def _send(self, tuples: Tuples) -> None:
        """Decide who stores a batch, and send it to those whom it concerns."""
        mirror, first = self._mirror, self._mirror.counts
        owners = self._sharing.owners(tuples, first)
        # With more batches under way, the oldest could be written over.
        settled = len(self._flight) < DEPTH and not any(one.loading for one in self._places)
        mirror.append(tuples, owners, settled=settled)
        counts = (len(tuples.r), len(tuples.s))
        order: Message = {
            "do": "join",
            "batch": next(self.crew.numbers),
            "sides": (mirror.order.count - len(tuples), mirror.order.count),
            "r": (first[0], mirror.counts[0]),
            "s": (first[1], mirror.counts[1]),
            "keys": self._prepared(tuples, settled=settled),
        }
        last = (tuples.r, tuples.s)[tuples.sides[-1]][-1]
        starts, stops = mirror.partners(tuples) if self._ordered else (NOTHING, NOTHING)
        live = mirror.oldest_live(int(last["time"]))
        batch = Batch(order, len(tuples), starts, stops, live)
        self._batches += 1
        self._flight.append(batch)
        for number, place in enumerate(self._places):
            holds = place.holds(self._live)
            stored = [np.flatnonzero(whose == number) for whose in owners]
            for side in (0, 1):
                if len(stored[side]):
                    place.newest[side] = first[side] + int(stored[side][-1])
            probes = any(counts[side] and holds[1 - side] for side in (0, 1))
            if probes or any(map(len, stored)):
                batch.awaited.add(number)
                self._places.tell(number, order)
            elif any(held and place.newest[side] < live[side] for side, held in enumerate(holds)):
                self._places.tell(number, {"do": "expire", "r": live[0], "s": live[1]})
        self._live = live
        self._mend()
        self._complete()

    def _prepared(self, tuples: Tuples, *, settled: bool) -> tuple[int, int]:
        """Make the keys of a batch, once for all workers; return where they are."""
        keys = self._mirror.keys
        first = keys.count
        if self._maker:
            keys.append(self._maker.keys(tuples), settled=settled)
        return first, keys.count

    # Feedback.

    def _listen(self, patience: float | None) -> None:
        """Take in what workers say; wait for it, so many seconds or for ever."""
        for number in self.crew.listen(patience):
            try:
                message, fd = self.crew.receive(number)
            except Gone:
                self._places.dead.add(number)
                continue
            self._hear(number, message, fd)
        self._mend()
        self._complete()

    def _hear(self, number: int, message: Message, fd: int | None) -> None:
        if message["say"] == "failed":
            self._let_go()
            raise DeviceError(f"worker {number} failed:\n{message['text']}")
        mine = [batch for batch in self._flight if batch.order["batch"] == message["batch"]]
        if not mine:  # of an earlier join
            if fd is not None:
                os.close(fd)
        elif message["say"] == "part":
            assert fd is not None
            piece = Piece.read(fd, message["pairs"], message["ends"])
            mine[0].pieces.setdefault(number, []).append(piece)
        else:
            batch = mine[0]
            batch.awaited.remove(number)
            batch.pairs += message["pairs"]
            if not self._ordered:
                for piece in batch.pieces.pop(number, []):
                    self._ready.append(part_of(piece, self._closed))
            place = self._places[number]
            r, s = (Held(*side) for side in message["held"])
            place.status = Status(place.before + message["comparisons"], (r, s))
            place.attempts = 0
            place.loading = False
            if place.idle:
                place.idle = 0
                self._ring()

    def _complete(self) -> None:
        """Hand over batches that every worker has answered, in order."""
        while self._flight and not self._flight[0].awaited:
            batch = self._flight.popleft()
            self._closed += batch.arrivals
            self._ready.append(self._last_part(batch))
            self._results += batch.pairs
            if self._outlet:
                self._outlet.closed(batch.order["batch"], self._closed)
            fitting = PAIRS * batch.arrivals // max(batch.pairs, 1)
            self._collector.limit = max(1, min(fitting, self._collector.most))
            for side, oldest in zip(self._mirror.sides, batch.live, strict=True):
                side.forget(oldest)
            self._mirror.order.forget(batch.order["sides"][1])
            self._mirror.keys.forget(batch.order["keys"][1])
            self._send_full()

    def _last_part(self, batch: Batch) -> Part:
        """Return what closes a batch; with an order, that is all of it."""
        if not self._ordered:
            return part_of(None, self._closed)
        one = in_order([batch.pieces[number] for number in sorted(batch.pieces)], batch.arrivals)
        return Part(one.r_id, one.s_id, one.at, one.ends, batch.starts, batch.stops, self._closed)

    # Recovery.

    def links(self) -> list[int]:
        """Return what to watch; see :class:`eddyline.engine.manager.watch.Watched`."""
        with self._turn:
            links = self._crew.links() if self._crew else []
            # One that ends whenever it is started is left to the next call.
            return [fd for place, fd in enumerate(links) if not self._places.hopeless(place)]

    def look(self) -> None:
        """Let other workers take the places of those that have ended meanwhile."""
        with self._turn:
            if self._crew is None:
                return
            try:
                self._places.dead.update(self._crew.ended())
                self._mend(patient=False)
                self._complete()
            except Exception as error:
                # The next call raises it: there is nobody here to hear of it.
                logger.warning("a join of %d workers has failed: %s", len(self._places), error)
                self._let_go()
                self._failure = error

    def _ring(self) -> None:
        """Tell the watch that there are other links."""
        if self._watch:
            self._watch.ring()

    def _mend(self, *, patient: bool = True) -> None:
        """Let other workers take the places of those that have ended.

        One that ends whenever it is started is left alone, unless ``patient``.
        """
        while self._places.dead:
            number = self._places.dead.pop()
            if patient or not self._places.hopeless(number):
                self._replace(number)

    def _replace(self, number: int) -> None:
        with suppress(Gone):
            while True:  # what it said before it ended
                self._hear(number, *self.crew.receive(number))
        try:
            self._places.replace(number, [one for one in self._flight if number in one.awaited])
        except DeviceError:
            self._let_go()
            raise
        self._ring()
