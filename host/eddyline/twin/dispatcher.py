"""Handshake join on worker processes: feed both ends of the chain, collect what comes out."""

from collections import deque
from typing import Self

import numpy as np

from eddyline.device import Counters, Tuples
from eddyline.plan import Plan
from eddyline.twin.admission import Admission, Round, block_dtype, merge_keys
from eddyline.twin.channel import LARGEST, Code
from eddyline.twin.protocol import ALL, Item, Kind, Message
from eddyline.twin.workers import Workers

__all__ = ["HandshakeTwin"]

R, S = 0, 1
CHAINS = ("asynchronous", "lockstep")
LOCAL_JOINS = ("nested", "merge")


class HandshakeTwin:
    """Join on a chain of processes, one core of the handshake join each.

    Tuples travel in blocks; the pairs are nevertheless exactly those of the definition, for
    windows of any kind. They come out in no particular order, some of them only when later tuples
    push the window on; :meth:`flush` brings the rest. A context manager; belongs to one thread.

    Parameters
    ----------
    plan : Plan
        What to join; its order is not looked at.
    processes : int
        Length of the chain.
    chain : str
        ``asynchronous``: two-phase forwarding with acknowledgements (section 4.2), or
        ``lockstep``: all cores hand on one block at a time, with a barrier after each.
    local : str
        The join inside a core: ``nested`` loop, or ``merge`` of sorted blocks, which needs a band
        or an equality.
    block : int
        Most tuples of a block.

    Raises
    ------
    DeviceError
        If the plan cannot be joined this way; from any method, if a worker has ended.
    """

    def __init__(
        self,
        plan: Plan,
        /,
        *,
        processes: int,
        chain: str = "asynchronous",
        local: str = "nested",
        block: int = 128,
    ):
        if processes < 1 or block < 1:
            raise ValueError(f"processes ({processes}) and block ({block}) must be at least 1")
        for name, value, known in (("chain", chain, CHAINS), ("local join", local, LOCAL_JOINS)):
            if value not in known:
                raise ValueError(f"no {name} {value!r} (known: {', '.join(known)})")
        self.processes = processes
        self.chain = chain
        self.local = local
        self.block = block
        self._admission = self._admit(plan)
        self._workers = Workers(processes, chain, local)
        try:
            self.configure(plan)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers. Nothing else works afterwards."""
        self._workers.close()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, from left to right."""
        return self._workers.pids

    def configure(self, plan: Plan, /) -> None:
        """Join something else from now on. Flush first: what is in the windows is lost."""
        admission = self._admit(plan)
        if self._admission.used:
            self.flush()
        self._admission = admission
        # Numbers of the newest tuples of the blocks in the chain.
        self._live: tuple[deque[int], deque[int]] = (deque(), deque())
        self._totals = {"tuples": 0, "results": 0}
        self._reports = [(0, 0)] * self.processes
        self._workers.broadcast(Code.CONFIGURE, self.block, data=plan.to_json().encode())
        self._workers.answers(Code.READY)

    def push(self, tuples: Tuples, /) -> tuple[np.ndarray, np.ndarray]:
        """Take arrivals; return ids of R and S of the pairs that have come out by now."""
        self._totals["tuples"] += len(tuples)
        for some in self._admission.add(tuples):
            self._enter(some)
        self._workers.collect()
        return self._pairs()

    def flush(self) -> tuple[np.ndarray, np.ndarray]:
        """End the input: return the remaining pairs and leave all windows empty."""
        for some in self._admission.rest():
            self._enter(some)
        if self.chain == "lockstep":
            # R walking out past S is enough for every remaining pair to meet.
            while self._step(R, None, share=0, until=ALL):
                pass
            self._workers.broadcast(Code.STAR)
        else:
            for message in (Message(Kind.DRAIN, until=ALL), Message(Kind.STAR)):
                self._workers.send(R, message)
                self._workers.send(S, message)
        self._reports = self._workers.answers(Code.STAR)
        for live in self._live:
            live.clear()
        return self._pairs()

    def counters(self) -> Counters:
        """Return totals, and as of the last flush each worker's processor time and comparisons.

        A merge join counts the pairs on which it evaluates the whole predicate.
        """
        found: Counters = dict(self._totals)
        for place, (busy, comparisons) in enumerate(self._reports):
            found[f"busy_seconds_{place}"] = busy / 1e9
            found[f"comparisons_{place}"] = comparisons
        return found

    def _admit(self, plan: Plan) -> Admission:
        keys = merge_keys(plan)[0] if self.local == "merge" else None
        most = min(LARGEST // block_dtype(layout).itemsize for layout in (plan.r, plan.s))
        if self.block > most:
            raise ValueError(f"a block of {self.block} such tuples is too large (at most {most})")
        return Admission(plan, block=self.block, keys=keys)

    def _enter(self, some: Round) -> None:
        shares = [live // self.processes for live in some.live]
        if self.chain == "lockstep":
            for side in (R, S):
                if some.blocks[side]:
                    self._step(
                        side, some.blocks[side], share=shares[side], until=some.horizons[side]
                    )
            return
        send = self._workers.send
        for side in (R, S):
            # Expired blocks go to the end of the chain and are removed there (section 4.3).
            horizon, live = some.horizons[side], self._live[side]
            send(side, Message(Kind.DRAIN, until=horizon, share=shares[side]))
            while live and live[0] < horizon:
                live.popleft()
                send(1 - side, Message(Kind.ACK))
        for side in (R, S):
            block = some.blocks[side]
            if block:
                send(side, Message(Kind.TUPLE, block))
                self._live[side].append(block.number)

    def _step(self, side: int, block: Item | None, *, share: int, until: int) -> int:
        """Let a side move by one block; return how many are not yet on its last core."""
        self._workers.broadcast(Code.STEP, side, share, until)
        if block:
            self._workers.send(side, Message(Kind.TUPLE, block))
        else:
            self._workers.ends[side].send(Code.BUBBLE)
        return sum(left for left, _ in self._workers.answers(Code.DONE))

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        parts = [np.empty((2, 0), np.uint32), *self._workers.pairs]
        self._workers.pairs.clear()
        r_id, s_id = np.concatenate(parts, axis=1)
        self._totals["results"] += len(r_id)
        return r_id, s_id
