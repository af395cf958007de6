"""A worker process: stores a share of both windows, and joins arrivals with it.

Started by :class:`eddyline.engine.manager.crew.Crew`. It ends when its link closes, which happens
at the latest when the manager's process ends.
"""

import os
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any

import numpy as np

from eddyline.device import Tuples
from eddyline.engine.choice import choose
from eddyline.engine.manager.link import Gone, Link
from eddyline.engine.manager.outlet import Spout
from eddyline.engine.manager.shared import SharedView, sent
from eddyline.engine.manager.sharing import OWNER
from eddyline.engine.part import Part, ShareEngine, Stores
from eddyline.plan import Plan

__all__ = ["main"]

Range = tuple[int, int]

# Pairs that are sent together; fewer only at the end of a batch.
TOGETHER = 1 << 20


class Worker:
    """Does what it is told, one message after the other.

    Each method is an order, and is called with what came in the message.
    """

    def __init__(self, link: Link):
        self._link = link
        self._engine: ShareEngine | None = None
        self._spout: Spout | None = None
        self._views: dict[str, SharedView]
        self._passed = [0, 0]

    def run(self) -> None:
        """Work until the link closes."""
        orders = {
            order.__name__: order
            for order in (
                self.configure,
                self.outlet,
                self.share,
                self.rebase,
                self.load,
                self.join,
                self.expire,
                self.flush,
            )
        }
        while True:
            message, fd = self._link.receive()
            order: Any = orders[message.pop("do")]
            order(**message) if fd is None else order(**message, fd=fd)

    def configure(
        self, plan: str, engine: str, threads: int, subwindows: int, shares: int, place: int
    ) -> None:
        """Get ready for a plan, with empty windows."""
        if self._engine:
            self._engine.close()
        if self._spout:
            self._spout.close()
            self._spout = None
        query = Plan.from_json(plan)
        choice = choose(query, engine)
        self._place = place
        self._ordered = query.order.kind != "none"
        self._dtypes = {
            "r": np.dtype(query.r.fields),
            "s": np.dtype(query.s.fields),
            "r_owners": OWNER,
            "s_owners": OWNER,
            "sides": np.dtype(np.uint8),
            "keys": np.dtype(np.uint8),
        }
        self._views = {}
        self._passed = [0, 0]
        self._engine = choice.open_share(
            query, threads=threads, subwindows=subwindows, shares=shares
        )

    def outlet(self, fd: int) -> None:
        """Send results there from now on, not to the manager."""
        self._spout = Spout(fd, self._place)

    def share(self, name: str, base: int, fd: int) -> None:
        """Read an array in other memory from now on."""
        self._views[name] = SharedView(fd, base, self._dtypes[name])

    def rebase(self, name: str, base: int) -> None:
        """Find an array at another place of the same memory from now on."""
        self._views[name].base = base

    def load(self, r: Range, s: Range) -> None:
        """Store this worker's share of tuples whose results are known."""
        sides = np.repeat(np.array([0, 1], np.uint8), [r[1] - r[0], s[1] - s[0]])
        tuples, stores = self._tuples(sides, r, s)
        if len(tuples):
            self._running.load(tuples, stores)

    def join(self, batch: int, sides: Range, r: Range, s: Range, keys: Range) -> None:
        """Look a batch up, store this worker's share of it, and send results and status."""
        tuples, stores = self._tuples(self._views["sides"].view(*sides), r, s)
        made = self._views["keys"].view(*keys) if keys[0] < keys[1] else None
        self._running.push(tuples, stores, made)
        parts: list[Part] = []
        pairs = 0
        while (part := self._running.pull()) is not None:
            parts.append(part)
            if sum(len(one.r_id) for one in parts) >= TOGETHER:
                pairs += self._send(batch, parts)
                parts = []
        pairs += self._send(batch, parts)
        if self._spout:
            self._spout.send({"say": "done", "batch": batch})
        self._link.send(
            {
                "say": "done",
                "batch": batch,
                "pairs": pairs,
                "comparisons": self._running.report()["comparisons"],
                "held": self._running.held(),
            }
        )

    def expire(self, r: int, s: int) -> None:
        """Forget what is below sequence numbers of R and S."""
        self._running.expire(r, s)

    def flush(self) -> None:
        """Empty the windows."""
        self._running.flush()
        self._passed = [0, 0]

    @property
    def _running(self) -> ShareEngine:
        assert self._engine, "the first order is to configure"
        return self._engine

    def _tuples(self, sides: np.ndarray, r: Range, s: Range) -> tuple[Tuples, Stores]:
        """Return tuples with what is to be stored of them; those before them have passed."""
        skipped = [first - passed for (first, _), passed in zip((r, s), self._passed, strict=True)]
        if any(skipped):
            self._running.skip(*skipped)
        self._passed = [r[1], s[1]]
        views = self._views
        stores = (
            (views["r_owners"].view(*r) == self._place).view(np.uint8),
            (views["s_owners"].view(*s) == self._place).view(np.uint8),
        )
        return Tuples(sides, views["r"].view(*r), views["s"].view(*s)), stores

    def _send(self, batch: int, parts: list[Part]) -> int:
        """Send parts as one, in memory that belongs to the receiver from then on.

        Returns how many pairs there are.
        """
        pairs = np.array([len(part.r_id) for part in parts], np.int64)
        columns = [[part.r_id for part in parts], [part.s_id for part in parts]]
        ends = 0
        if self._ordered:
            before = np.cumsum(pairs) - pairs
            moved = [part.ends + first for part, first in zip(parts, before, strict=True)]
            columns = [[part.at for part in parts], moved, *columns]
            ends = sum(map(len, moved))
        count = int(pairs.sum())
        if not count and not ends:
            return 0
        fd = sent([array for column in columns for array in column])
        try:
            message = {"say": "part", "batch": batch, "pairs": count, "ends": ends}
            (self._spout or self._link).send(message, fd)
        finally:
            os.close(fd)
        return count


def main() -> None:
    """Work at the socket that was inherited under the number on the command line."""
    link = Link(socket.socket(fileno=int(sys.argv[1])))
    try:
        Worker(link).run()
    except Gone:
        pass
    except Exception:
        # What is wrong here would be wrong again in another process: the manager should know.
        with suppress(Gone):
            link.send({"say": "failed", "text": traceback.format_exc()[-4096:]})
    # What is left is of no use to anybody, and an interpreter takes its time to end.
    os._exit(0)


if __name__ == "__main__":
    main()
