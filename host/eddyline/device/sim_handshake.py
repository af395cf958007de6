"""The handshake join's gateware as a device, simulated cycle by cycle."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from eddyline.clock import later
from eddyline.device import Counters, Results, Tuples, joined, no_results
from eddyline.device.reorder import Reorder
from eddyline.errors import DeviceError
from eddyline.plan import Layout, Plan, in_rows
from eddyline_hw.handshake.admission import Policy
from eddyline_hw.handshake.geometry import Chain
from eddyline_hw.handshake.operator import HandshakeJoin
from eddyline_hw.layouts import message_layout, result_layout
from eddyline_sim.packing import pack, unpack
from eddyline_sim.simulation import Simulation

__all__ = ["HandshakeDevice"]

MOST_CORES = 256
# Pairs that one run of the simulator may give if everything matches.
MOST_PAIRS = 1 << 20
# Cycles after which the 32-bit counters of the cores must have been read.
COUNTERS_LAST = 1 << 26
# Cycles without a result or an input after which the simulation is given up, beside a flush.
PATIENCE = 1_000_000
# A time stamp as an unsigned number.
SIGN = np.uint64(1 << 63)
# Simulations that are not in use, by design: elaborating one again takes seconds.
_IDLE: dict[tuple[object, ...], tuple[HandshakeJoin, Simulation]] = {}
MOST_IDLE = 16
CHAIN_COUNTERS = {
    "throttled": "stalls_throttle",
    "paced": "stalls_pace",
    "waited": "stalls_entry",
    "dropped_tuples": "dropped_tuples",
}
CORE_COUNTERS = ("comparisons", "dropped_results")


class HandshakeDevice:
    """Join in a simulated chain of cores.

    Parameters
    ----------
    cores : int
        Length of the chain.
    window : int, optional
        Capacity in tuples per side; every smaller window is a run-time setting. By default what
        the query asks for. A window of time or without an end needs it.
    comparators : int
        Comparators per core, at most one per tuple that the core holds.
    chain : str
        Cores in lock step, or asynchronous ones joined by queues.
    fan_in : int
        Inputs of a merger of results, 2 to 8.
    admission : str
        What happens when results cannot leave fast enough.
    memory : str
        What the windows are made of.
    trace : path, optional
        Write waveforms there, as FST or VCD.
    progress : function of a text, optional
        Is told how compiling the simulator goes.
    """

    name = "sim:handshake"

    def __init__(
        self,
        *,
        cores: int = 4,
        window: int | None = None,
        comparators: int = 1,
        chain: Literal["lockstep", "asynchronous"] = "lockstep",
        fan_in: int = 4,
        admission: Literal["wait", "drop_new", "drop_results"] = "wait",
        memory: Literal["auto", "shift", "lutram", "bram"] = "auto",
        trace: Path | None = None,
        progress: Callable[[str], None] | None = None,
    ):
        if cores > MOST_CORES:
            raise ValueError(f"cores={cores} is more than the {MOST_CORES} that are supported")
        if fan_in not in range(2, 9):
            raise ValueError(f"fan_in={fan_in} is not from 2 to 8")
        if chain == "asynchronous" and memory == "shift":
            raise ValueError("memory=shift is for chain=lockstep (asynchronous: lutram or bram)")
        self.cores = cores
        self.window = window
        self.comparators = comparators
        self.chain: Literal["lockstep", "asynchronous"] = chain
        self.fan_in = fan_in
        self.admission = admission
        self.memory = memory
        self.trace = trace
        self.progress = progress
        self._simulation: Simulation | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._put_away()

    def configure(self, plan: Plan) -> None:
        capacity = {side: self._capacity(plan, side) for side in "rs"}
        if self.admission == "drop_new" and plan.order.kind != "none":
            raise DeviceError(
                f"{self.name}: with admission=drop_new nobody knows which tuples are missing, and "
                f"so not when an arrival is complete: order {plan.order.kind} cannot be restored"
            )
        self._plan = plan
        # Sequence numbers travel instead of row ids: the host counts modulo 2^32 as well.
        self._rows = replace(in_rows(plan, max(capacity.values())), id_bits=32)
        sizes = {
            side: plan.window(side).size if plan.window(side).kind == "rows" else capacity[side]
            for side in "rs"
        }
        self._operator, self._simulation = self._take_out(capacity)
        settings = self._operator.settings(
            sizes["r"],
            sizes["s"],
            policy=Policy[self.admission.upper()],
            keep_r=plan.window_r.kind == "unbounded",
            keep_s=plan.window_s.kind == "unbounded",
        )
        for name, value in settings.items():
            self._simulation.set(name, value)
        self._simulation.reset()
        self._lanes = self._operator.chain.lanes
        self._capacities = capacity
        self._reorder = Reorder(
            plan,
            Chain(self.cores, sizes["r"], sizes["s"], self.chain),
            lossy=self.lossy,
        )
        self._messages = message_layout(self._rows)
        self._answers = result_layout(self._rows)
        self._slice = max(256, MOST_PAIRS // sum(sizes.values()))
        self._queue: list[Tuples] = []
        self._sent = [0, 0]
        self._closed = self._tuples = self._results = 0
        self._cycles = self._flush_cycles = self._unread_cycles = self._peak = 0
        # Totals, and what the 32-bit counters showed last, by name and core.
        self._totals = dict.fromkeys((*CHAIN_COUNTERS, *CORE_COUNTERS), 0)
        self._shown: dict[tuple[str, int], int] = {}
        # A flush moves every tuple through the whole chain.
        slots = sum(max(size, self.cores) for size in sizes.values())
        self._patience = PATIENCE + 8 * slots * (max(sizes.values()) // self.cores + 4)

    def push(self, tuples: Tuples) -> None:
        if not len(tuples):
            return
        ends = [*range(self._slice, len(tuples), self._slice), len(tuples)]
        cuts = [0, 0]
        for begin, end in zip([0, *ends], ends, strict=False):
            sides = tuples.sides[begin:end]
            of_s = int(np.count_nonzero(sides))
            after = [cuts[0] + len(sides) - of_s, cuts[1] + of_s]
            self._queue.append(
                Tuples(sides, tuples.r[cuts[0] : after[0]], tuples.s[cuts[1] : after[1]])
            )
            cuts = after

    def pull(self) -> Results:
        while self._queue:
            tuples = self._queue.pop(0)
            self._reorder.arrive(tuples)
            self._run(self._packed(tuples), flush=False)
            results = self._counted(self._reorder.take())
            if not results.nothing:
                return results
        return no_results(self._closed)

    def flush(self) -> Results:
        parts = []
        while self._queue:
            parts.append(self.pull())
        if sum(self._sent):
            self._run(pack(self._messages, {}, 0), flush=True)
            self._sent = [0, 0]
            parts.append(self._counted(self._reorder.flush()))
        return joined(parts, self._closed)

    def _counted(self, results: Results) -> Results:
        self._closed = results.closed
        self._results += len(results)
        return results

    def _packed(self, tuples: Tuples) -> np.ndarray:
        """Return tuples as messages."""
        words = pack(self._messages, {}, len(tuples))
        for number, (side, records) in enumerate((("r", tuples.r), ("s", tuples.s))):
            numbers = self._sent[number] + np.arange(len(records), dtype=np.uint64)
            columns = {"side": number, f"entry.{side}.id": numbers, **self._columns(side, records)}
            words[tuples.sides == number] = pack(self._messages, columns, len(records))
            self._sent[number] += len(records)
        self._tuples += len(tuples)
        return words

    def counters(self) -> Counters:
        assert self._simulation
        if not self._simulation.broken:
            self._read_cores()
        comparators = self.cores * self._lanes
        flow = self._cycles - self._flush_cycles
        counters: Counters = {
            "tuples": self._tuples,
            "results": self._results,
            "cycles": self._cycles,
            "flush_cycles": self._flush_cycles,
            "cycles_per_tuple": round(flow / max(self._tuples, 1), 4),
            "comparisons": self._totals["comparisons"],
            "comparator_duty": round(
                self._totals["comparisons"] / max(self._cycles * comparators, 1), 4
            ),
        }
        counters |= {
            shown: self._totals[name]
            for name, shown in CHAIN_COUNTERS.items()
            if name in self._simulation.counters
        }
        return counters | {
            "dropped_results": self._totals["dropped_results"],
            "queue_peak": self._peak,
        }

    @property
    def lossy(self) -> bool:
        """Tuples may be dropped on the way in, and nobody knows which."""
        return self.admission == "drop_new"

    def _capacity(self, plan: Plan, side: str) -> int:
        window = plan.window(side)
        if window.kind != "rows":
            if self.window is None:
                raise DeviceError(
                    f"{self.name}: {side.upper()}'s window is a {window.kind} window, and hardware "
                    "holds a number of tuples: say how many with window=N, enough for the busiest "
                    "moment"
                    if window.kind == "time"
                    else f"{self.name}: {side.upper()}'s window is unbounded, and hardware holds a "
                    "number of tuples: say how many with window=N, as many as will ever come"
                )
            return self.window
        if self.window is not None and window.size > self.window:
            raise DeviceError(
                f"{self.name}: a window of {window.size} rows does not fit window={self.window}"
            )
        return self.window or window.size

    def _take_out(self, capacity: dict[str, int]) -> tuple[HandshakeJoin, Simulation]:
        """Return a simulation of the design, built now unless there is an idle one."""
        self._put_away()
        same = (self.cores, self.comparators, self.chain, self.fan_in, self.memory)
        plan = self._rows
        self._design = (*same, *capacity.values(), plan.r, plan.s, plan.predicate)
        idle = None if self.trace else _IDLE.pop(self._design, None)
        if idle:
            return idle
        operator = self._elaborated(capacity)
        simulation = Simulation(
            operator,
            name=f"handshake-{self.chain}-{self.cores}x{operator.chain.lanes}",
            trace=self.trace,
            progress=self.progress,
        )
        return operator, simulation

    def _put_away(self) -> None:
        """Keep the simulation for the next device of the same design."""
        if not self._simulation:
            return
        if self.trace or self._design in _IDLE or self._simulation.broken:
            self._simulation.close()
        else:
            _IDLE[self._design] = (self._operator, self._simulation)
            while len(_IDLE) > MOST_IDLE:
                _IDLE.pop(next(iter(_IDLE)))[1].close()
        self._simulation = None

    def _elaborated(self, capacity: dict[str, int]) -> HandshakeJoin:
        segment = max(-(-size // self.cores) for size in capacity.values())
        if self.comparators > segment:
            raise DeviceError(
                f"{self.name}: comparators={self.comparators}, but a core holds {segment} tuples "
                f"of a side: use 1 to {segment}"
            )
        try:
            return HandshakeJoin(
                self._rows,
                chain=self.chain,
                fan_in=self.fan_in,
                cores=self.cores,
                window_r=capacity["r"],
                window_s=capacity["s"],
                lanes=self.comparators,
                window=self.memory,
            )
        except ValueError as error:
            raise DeviceError(f"{self.name}: {error}") from None

    def _columns(self, side: str, records: np.ndarray) -> dict[str, Any]:
        """Return words, validity bits, flags and times of records by their place in a message."""
        layout: Layout = self._plan.layout(side)
        place = f"entry.{side}.words"
        columns: dict[str, Any] = {}
        for number, word in enumerate(layout.words):
            columns[f"{place}.{word.name}"] = records[word.name]
            if word.optional:
                columns[f"{place}.{word.name}_valid"] = records["valid"] >> np.uint64(number) & 1
        for number in range(len(layout.flags)):
            bit = np.uint64(layout.flag_bit(number))
            columns[f"{place}.f{number}"] = records["valid"] >> bit & 1
        names = {word.name for word in self._rows.layout(side).words}
        times = records["time"]
        if "when" in names:
            columns[f"{place}.when"] = times.astype(np.uint64) ^ SIGN
        if "until" in names:
            until = later(times, self._plan.window(side).size)
            columns[f"{place}.until"] = until.astype(np.uint64) ^ SIGN
        return columns

    def _run(self, words: np.ndarray, *, flush: bool) -> None:
        """Send messages and a star behind them; take what comes out until it is back."""
        assert self._simulation
        star = pack(self._messages, {"star": 1, "flush": int(flush)}, 1)
        before = self._simulation.cycles
        out = self._simulation.run(
            np.concatenate([words, star]), until_star=True, patience=self._patience
        )
        cycles = self._simulation.cycles - before
        self._cycles += cycles
        self._flush_cycles += cycles if flush else 0
        self._unread_cycles += cycles
        for name in CHAIN_COUNTERS:
            self._add_up(name)
        if self._simulation.get("overflow"):
            room = self._capacities.items()
            held = " and ".join(f"{size} of {side.upper()}" for side, size in room)
            raise DeviceError(
                f"{self.name}: a tuple had to leave while its window still held it; there is room "
                f"for {held}: give more with window=N"
            )
        pairs = out[unpack(self._answers, out, "star") == 0]
        self._reorder.add(
            unpack(self._answers, pairs, "r_id").astype(np.uint32),
            unpack(self._answers, pairs, "s_id").astype(np.uint32),
        )
        if self._unread_cycles > COUNTERS_LAST // self._lanes:
            self._read_cores()

    def _read_cores(self) -> None:
        """Add up what the cores have counted, and check that nothing was lost."""
        assert self._simulation
        self._unread_cycles = 0
        for core in range(self.cores):
            self._simulation.set("selected", core)
            self._simulation.step(4)
            for name in CORE_COUNTERS:
                self._add_up(name, core)
            self._peak = max(self._peak, self._simulation.get("peak"))
        if self._totals["dropped_results"] and self.admission != "drop_results":
            raise DeviceError(
                f"{self.name}: {self._totals['dropped_results']} results were lost in a queue that "
                "should have had room; please report this"
            )

    def _add_up(self, name: str, core: int = 0) -> None:
        """Add what a counter has counted since it was last read; it counts modulo 2^32."""
        assert self._simulation
        if name in self._simulation.counters:
            value = self._simulation.get(name)
            self._totals[name] += (value - self._shown.get((name, core), 0)) & 0xFFFFFFFF
            self._shown[name, core] = value
