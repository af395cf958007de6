"""What devices of simulated gateware have in common."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from eddyline.clock import later
from eddyline.device import Counters, Results, Tuples, joined, no_results
from eddyline.errors import DeviceError
from eddyline.plan import Layout, Plan, in_rows
from eddyline_hw.layouts import message_layout
from eddyline_sim.packing import pack
from eddyline_sim.simulation import Simulation

__all__ = ["ID_BITS", "PATIENCE", "SimulatedDevice"]

# Width of a sequence number.
ID_BITS = 32
# Pairs that one run of the simulator may give if everything matches.
MOST_PAIRS = 1 << 20
# Cycles after which the 32-bit counters of the cores must have been read.
COUNTERS_LAST = 1 << 26
# Cycles without a result or an input after which the simulation is given up.
PATIENCE = 1_000_000
# A time stamp as an unsigned number.
SIGN = np.uint64(1 << 63)
# Simulations that are not in use, by design: elaborating one again takes seconds.
_IDLE: dict[tuple[object, ...], tuple[Any, Simulation]] = {}
MOST_IDLE = 16


class SimulatedDevice(ABC):
    """An operator of the gateware as a device, run slice by slice and each to its end.

    Tuples are numbered per side, from zero since the last flush; these sequence numbers travel
    instead of row ids, modulo 2^32. Derived classes build the operator and make results of what
    comes out of it.

    Parameters
    ----------
    cores : int
        Number of cores.
    window : int, optional
        Capacity in tuples per side; every smaller window is a run-time setting. By default what
        the query asks for. A window of time or without an end needs it.
    comparators : int
        Comparators per core, at most one per tuple that the core holds.
    trace : path, optional
        Write waveforms there, as FST or VCD.
    progress : function of a text, optional
        Is told how compiling the simulator goes.
    """

    name: ClassVar[str]
    most_cores: ClassVar[int] = 256
    # Counters of the operator and how they are shown, and counters of each core.
    operator_counters: ClassVar[dict[str, str]]
    core_counters: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        *,
        cores: int,
        window: int | None,
        comparators: int,
        trace: Path | None,
        progress: Callable[[str], None] | None,
    ):
        if cores > self.most_cores:
            raise ValueError(f"cores={cores} is more than the {self.most_cores} that are supported")
        self.cores = cores
        self.window = window
        self.comparators = comparators
        self.trace = trace
        self.progress = progress
        self._simulation: Simulation | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._put_away()

    @abstractmethod
    def _refuse(self, plan: Plan) -> None:
        """Raise a DeviceError if the plan cannot be done, beside its windows."""

    @abstractmethod
    def _build(self, plan: Plan, capacity: dict[str, int]) -> Any:
        """Return the operator; a ValueError says why there is none."""

    @property
    @abstractmethod
    def _kind(self) -> str:
        """What to call the operator in messages and waveforms."""

    @property
    @abstractmethod
    def _design(self) -> tuple[object, ...]:
        """What tells two operators of the same cores, comparators, windows and plan apart."""

    @abstractmethod
    def _lanes_of(self, operator: Any) -> int:
        """Return the comparators that a core really has."""

    @abstractmethod
    def _settings(self) -> dict[str, int]:
        """Return the operator's settings for the plan."""

    @abstractmethod
    def _begin(self) -> None:
        """Start with empty windows, after ``configure``."""

    @abstractmethod
    def _join(self, tuples: Tuples) -> Results:
        """Send tuples and return what may be handed over."""

    @abstractmethod
    def _end(self) -> Results:
        """Flush; return what is left. Only called if tuples have been sent since the last one."""

    def configure(self, plan: Plan) -> None:
        capacity = {side: self._capacity(plan, side) for side in "rs"}
        self._refuse(plan)
        self._plan = plan
        self._rows = replace(in_rows(plan, max(capacity.values())), id_bits=ID_BITS)
        self._sizes = {
            side: plan.window(side).size if plan.window(side).kind == "rows" else capacity[side]
            for side in "rs"
        }
        self._operator, self._simulation = self._take_out(capacity)
        for name, value in self._settings().items():
            self._simulation.set(name, value)
        self._simulation.reset()
        self._lanes = self._lanes_of(self._operator)
        self._capacities = capacity
        self._messages = message_layout(self._rows)
        self._patience = PATIENCE
        self._slice = max(256, MOST_PAIRS // sum(self._sizes.values()))
        self._queue: deque[Callable[[], Results]] = deque()
        self._sent = [0, 0]
        self._closed = self._tuples = self._results = 0
        self._cycles = self._flush_cycles = self._unread_cycles = self._peak = 0
        # Totals, and what the 32-bit counters showed last, by name and core.
        self._totals = dict.fromkeys((*self.operator_counters, *self.core_counters), 0)
        self._shown: dict[tuple[str, int], int] = {}
        self._begin()

    def push(self, tuples: Tuples) -> None:
        begin, cuts = 0, [0, 0]
        for end in self._cuts(len(tuples)):
            sides = tuples.sides[begin:end]
            of_s = int(np.count_nonzero(sides))
            after = [cuts[0] + len(sides) - of_s, cuts[1] + of_s]
            part = Tuples(sides, tuples.r[cuts[0] : after[0]], tuples.s[cuts[1] : after[1]])
            self._queue.append(partial(self._join, part))
            begin, cuts = end, after

    def _cuts(self, count: int) -> Iterator[int]:
        """Yield where each of the slices ends that so many tuples are sent in."""
        yield from range(self._slice, count, self._slice)
        if count:
            yield count

    def pull(self) -> Results:
        while self._queue:
            results = self._counted(self._queue.popleft()())
            if not results.nothing:
                return results
        return no_results(self._closed)

    def flush(self) -> Results:
        parts = []
        while self._queue:
            parts.append(self.pull())
        if sum(self._sent):
            parts.append(self._counted(self._end()))
            self._sent = [0, 0]
        return joined(parts, self._closed)

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
        return counters | {
            shown: self._totals[name]
            for name, shown in self.operator_counters.items()
            if name in self._simulation.counters
        }

    def _counted(self, results: Results) -> Results:
        self._closed = results.closed
        self._results += len(results)
        return results

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

    def _take_out(self, capacity: dict[str, int]) -> tuple[Any, Simulation]:
        """Return a simulation of the design, built now unless there is an idle one."""
        self._put_away()
        self._key = (
            *(self.name, self.cores, self.comparators, *self._design, *capacity.values()),
            *(_shape(self._rows.layout(side)) for side in "rs"),
            self._rows.predicate,
        )
        idle = None if self.trace else _IDLE.pop(self._key, None)
        if idle:
            return idle
        segment = max(-(-size // self.cores) for size in capacity.values())
        if self.comparators > segment:
            raise DeviceError(
                f"{self.name}: comparators={self.comparators}, but a core holds {segment} tuples "
                f"of a side: use 1 to {segment}"
            )
        try:
            operator = self._build(self._rows, capacity)
        except ValueError as error:
            raise DeviceError(f"{self.name}: {error}") from None
        simulation = Simulation(
            operator,
            name=f"{self._kind}-{self.cores}x{self._lanes_of(operator)}",
            trace=self.trace,
            progress=self.progress,
        )
        return operator, simulation

    def _put_away(self) -> None:
        """Keep the simulation for the next device of the same design."""
        if not self._simulation:
            return
        if self.trace or self._key in _IDLE or self._simulation.broken:
            self._simulation.close()
        else:
            _IDLE[self._key] = (self._operator, self._simulation)
            while len(_IDLE) > MOST_IDLE:
                _IDLE.pop(next(iter(_IDLE)))[1].close()
        self._simulation = None

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

    def _send(self, tuples: Tuples | None) -> np.ndarray:
        """Send tuples and a star behind them, or a flush; return all that comes out for them."""
        assert self._simulation
        flush = tuples is None
        words = self._packed(tuples) if tuples else pack(self._messages, {}, 0)
        star = pack(self._messages, {"star": 1, "flush": int(flush)}, 1)
        before = self._simulation.cycles
        out = self._until_answered(self._simulation, np.concatenate([words, star]))
        cycles = self._simulation.cycles - before
        self._cycles += cycles
        self._flush_cycles += cycles if flush else 0
        self._unread_cycles += cycles
        for name in self.operator_counters:
            self._add_up(name)
        if self._simulation.get("overflow"):
            room = self._capacities.items()
            held = " and ".join(f"{size} of {side.upper()}" for side, size in room)
            raise DeviceError(
                f"{self.name}: a tuple had to leave while its window still held it; there is room "
                f"for {held}: give more with window=N"
            )
        if self._unread_cycles > COUNTERS_LAST // self._lanes:
            self._read_cores()
        return out

    def _until_answered(self, simulation: Simulation, messages: np.ndarray) -> np.ndarray:
        """Run until the star at the end of the messages is back; return all that comes out."""
        return simulation.run(messages, until_star=True, patience=self._patience)

    def _read_cores(self) -> None:
        """Add up what the cores have counted."""
        assert self._simulation
        self._unread_cycles = 0
        # The setting passes two registers, and counters a multiplexer of a register for each bit.
        registers = max(8, 2 + self.cores.bit_length())
        for core in range(self.cores):
            self._simulation.set("selected", core)
            self._simulation.step(registers)
            for name in self.core_counters:
                self._add_up(name, core)
            self._peak = max(self._peak, self._simulation.get("peak"))

    def _add_up(self, name: str, core: int = 0) -> None:
        """Add what a counter has counted since it was last read; it counts modulo 2^32."""
        assert self._simulation
        if name in self._simulation.counters:
            value = self._simulation.get(name)
            self._totals[name] += (value - self._shown.get((name, core), 0)) & 0xFFFFFFFF
            self._shown[name, core] = value


def _shape(layout: Layout) -> tuple[object, ...]:
    """Return what the gateware sees of a layout: constants of the query are not in it."""
    words = ((word.name, word.width, word.optional) for word in layout.words)
    return (*words, len(layout.flags))
