"""SplitJoin's gateware as a device, simulated cycle by cycle."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eddyline.clock import EARLIEST
from eddyline.device import Counters, Results, Tuples, no_results
from eddyline.device.held import Held
from eddyline.device.simulated import ID_BITS, PATIENCE, SimulatedDevice
from eddyline.device.stars import left_open, star_positions
from eddyline.errors import DeviceError
from eddyline.plan import Plan
from eddyline_hw.splitjoin.layouts import joined_layout
from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.splitjoin.precision import Precision
from eddyline_sim.packing import unpack
from eddyline_sim.simulation import Simulation, SimulationStuck

__all__ = ["SplitJoinDevice"]

# Arrivals that the gateware can count in a group.
MOST_IN_GROUP = (1 << 16) - 1
# Rounds of partners, one on each core, that may come between two inner stars.
MOST_ROUNDS = 1 << 15
MODES = {"none": Precision.NONE, "outer": Precision.OUTER, "inner": Precision.INNER}
# Cycles until a core that is switched off is out of everybody's way.
SWITCHING = 16
# The answer is waited for cycle by cycle, and in longer steps only when it takes this long.
EXACT = 256


@dataclass(frozen=True)
class _Arrivals:
    """Tuples on their way, in order of arrival.

    ``number`` is the sequence number on their side, ``starts`` and ``stops`` the range of those of
    the other side that they meet.
    """

    sides: np.ndarray
    number: np.ndarray
    starts: np.ndarray
    stops: np.ndarray


class SplitJoinDevice(SimulatedDevice):
    """Join in simulated cores that each keep a share of both windows.

    The gateware itself puts results into the order of the plan. With ``inner:N`` it does so as
    exactly as N partners need, which costs it fewer stars, and the host does the rest.

    Parameters
    ----------
    cores : int
        Number of cores.
    window : int, optional
        Capacity in tuples per side; every smaller window is a run-time setting. By default what
        the query asks for. A window of time or without an end needs it.
    comparators : int
        Comparators per core, at most one per tuple that the core holds.
    fan_out, fan_in : int
        Branches of a node of the trees in front of the cores, at least 2, and behind them, 2 to 8.
    memory : str
        What the windows are made of.
    precision : str
        Order as the query asks for, or, where it asks for none, as exact as the load permits.
    broken : int
        Core, counted from 1, that is off from the start, if any; see ``disable``.
    trace : path, optional
        Write waveforms there, as FST or VCD.
    progress : function of a text, optional
        Is told how compiling the simulator goes.
    """

    name = "sim:splitjoin"
    # One setting has a bit for every core, and the simulator takes settings of up to 64 bits.
    most_cores = 64
    operator_counters = {"waited": "stalls_entry"}
    core_counters = ("comparisons", "busy")

    def __init__(
        self,
        *,
        cores: int = 4,
        window: int | None = None,
        comparators: int = 1,
        fan_out: int = 4,
        fan_in: int = 4,
        memory: Literal["auto", "lutram", "bram"] = "auto",
        precision: Literal["query", "adaptive"] = "query",
        broken: int = 0,
        trace: Path | None = None,
        progress: Callable[[str], None] | None = None,
    ):
        super().__init__(
            cores=cores, window=window, comparators=comparators, trace=trace, progress=progress
        )
        if fan_out < 2:
            raise ValueError(f"fan_out={fan_out} is not 2 or more")
        if fan_in not in range(2, 9):
            raise ValueError(f"fan_in={fan_in} is not from 2 to 8")
        self.fan_out = fan_out
        self.fan_in = fan_in
        self.memory = memory
        self.precision = precision
        self.broken = broken
        # Cores that were switched off, and those of them that are so behind what was sent.
        self._off: set[int] = set()
        self._dead: set[int] = set()
        if broken:
            self._check_core(broken)

    def disable(self, core: int) -> None:
        """Switch a core off, as if it had failed, until the device is configured again.

        The others go on. Rows that it holds, and those pushed from now on that it would have kept,
        are in no window any more: pairs with later rows are missing. ``lost_rows`` counts them.

        Parameters
        ----------
        core : int
            Which one, counted from 1.
        """
        if not self._simulation:
            raise DeviceError(f"{self.name}: a core is switched off behind configure, not before")
        self._check_core(core)
        if core not in self._off:
            self._off.add(core)
            self._queue.append(partial(self._switch_off, core))

    def counters(self) -> Counters:
        assert self._simulation
        counters = super().counters()
        if self.precision == "adaptive":
            chosen = {name: self._simulation.get(name) for name in ("interval", "inner_interval")}
        else:
            kind = self._plan.order.kind
            group = self._group if kind != "none" else 0
            chosen = {"interval": group, "inner_interval": self._rounds if kind == "inner" else 0}
        return counters | {
            "busy": round(self._totals["busy"] / max(self._cycles * self.cores, 1), 4),
            "queue_peak": self._peak,
            "lost_rows": self._lost,
            **chosen,
        }

    def _check_core(self, core: int) -> None:
        if core not in range(1, self.cores + 1):
            raise ValueError(f"there is no core {core}: they are 1 to {self.cores}")
        if len(self._off | {core}) == self.cores:
            raise ValueError(f"core {core} is the last one that works: at least one has to stay on")

    def _refuse(self, plan: Plan) -> None:
        if self.precision == "adaptive" and plan.order.kind != "none":
            raise DeviceError(
                f"{self.name}: precision=adaptive lets the load decide how exact the order is, and "
                f"the query asks for order {plan.order.kind}: leave one of them out"
            )

    @property
    def _kind(self) -> str:
        return "splitjoin"

    @property
    def _design(self) -> tuple[object, ...]:
        return self.fan_out, self.fan_in, self.memory

    def _build(self, plan: Plan, capacity: dict[str, int]) -> SplitJoin:
        return SplitJoin(
            plan,
            cores=self.cores,
            window_r=capacity["r"],
            window_s=capacity["s"],
            lanes=self.comparators,
            fan_out=self.fan_out,
            fan_in=self.fan_in,
            memory=self.memory,
        )

    def _lanes_of(self, operator: Any) -> int:
        return operator.lanes

    def _settings(self) -> dict[str, int]:
        order, adaptive = self._plan.order, self.precision == "adaptive"
        self._dead = {self.broken} if self.broken else set()
        self._off = set(self._dead)
        self._mode = Precision.OUTER if adaptive else MODES[order.kind]
        self._group = max(order.every, 1) if order.kind == "outer" else 1
        self._rounds = min(order.every // self.cores, MOST_ROUNDS) if order.kind == "inner" else 1
        self._rounds = 1 << max(self._rounds.bit_length() - 1, 0)
        if self._group > MOST_IN_GROUP:
            self._mode = Precision.NONE  # slices end where groups do
        settings = self._operator.settings(
            self._sizes["r"],
            self._sizes["s"],
            order_mode=self._mode,
            every={Precision.INNER: self._rounds, Precision.OUTER: self._group}.get(self._mode, 1),
            keep_r=self._plan.window_r.kind == "unbounded",
            keep_s=self._plan.window_s.kind == "unbounded",
        )
        return settings | {"adaptive": int(adaptive), "disabled": self._mask()}

    def _mask(self) -> int:
        return sum(1 << (core - 1) for core in self._dead)

    def _begin(self) -> None:
        assert self._simulation
        self._simulation.step(SWITCHING)
        self._answers = joined_layout(self._rows)
        self._lost = 0
        self._start_again()
        # Every tuple on the way may take as long as its share of the window does.
        self._patience = PATIENCE + 64 * max(self._sizes.values()) // self.cores

    def _start_again(self) -> None:
        self._sides = tuple(Held(self._plan.window(side), "windows") for side in "rs")
        self._pushed = self._arrived = 0
        self._now = EARLIEST

    def _cuts(self, count: int) -> Iterator[int]:
        """Yield ends of slices. One that begins within a group of arrivals does not go beyond it.

        The star behind a slice closes a group that is open, and the gateware begins to count anew.
        """
        done = 0
        while done < count:
            size, phase = self._slice, (self._pushed + done) % self._group
            if phase or self._group > MOST_IN_GROUP:
                size = min(size, self._group - phase)
            elif self._group < size:
                size -= size % self._group
            done = min(done + size, count)
            yield done
        self._pushed += count

    def _join(self, tuples: Tuples) -> Results:
        arrivals = self._arrive(tuples)
        results = self._results_of(arrivals, self._send(tuples))
        self._arrived += len(tuples)
        self._forget()
        return results

    def _end(self) -> Results:
        out = self._send(None)
        if len(out) != 1:
            raise DeviceError(f"{self.name}: a flush gave more than its star; please report this")
        results = no_results(self._closed)
        if left_open(self._plan.order, self._arrived):
            results = replace(results, stars=np.zeros(1, np.int64))
        self._start_again()
        return results

    def _switch_off(self, core: int) -> Results:
        assert self._simulation
        self._dead.add(core)
        self._simulation.set("disabled", self._mask())
        self._simulation.step(SWITCHING)
        for one in self._sides:
            self._lost += self._turns(core, one.first_young(self._now), one.count)
        return no_results(self._closed)

    def _turns(self, core: int, first: int, last: int) -> int:
        """Count the tuples with sequence numbers ``first`` to before ``last`` that a core keeps."""
        return len(range(first + (core - 1 - first) % self.cores, last, self.cores))

    def _arrive(self, tuples: Tuples) -> _Arrivals:
        """Note tuples that are about to be sent."""
        count = len(tuples)
        now, number = np.empty(count, np.int64), np.empty(count, np.int64)
        starts, stops = np.empty(count, np.int64), np.empty(count, np.int64)
        for side, records in enumerate((tuples.r, tuples.s)):
            mine, own, other = tuples.sides == side, self._sides[side], self._sides[1 - side]
            now[mine] = records["time"]
            number[mine] = own.count + np.arange(len(records))
            stops[mine] = other.count + np.cumsum(~mine)[mine]
        for side, records in enumerate((tuples.r, tuples.s)):
            own = self._sides[side]
            first = own.count
            own.append(records)
            self._lost += sum(self._turns(core, first, own.count) for core in self._dead)
        for side in (0, 1):
            mine, other = tuples.sides == side, self._sides[1 - side]
            starts[mine] = other.window_starts(stops[mine], now[mine])
        self._now = int(now[-1])
        return _Arrivals(tuples.sides, number, starts, stops)

    def _forget(self) -> None:
        """Forget the tuples that no later arrival can meet."""
        for one in self._sides:
            one.forget(one.first_young(self._now))

    def _results_of(self, arrivals: _Arrivals, out: np.ndarray) -> Results:
        """Return what has come out for some arrivals, in the order in which it came."""
        fields = {
            name: unpack(self._answers, out, name).astype(np.int64)
            for name in ("star", "final", "side", "r_id", "s_id")
        }
        star, closes = fields["star"] == 1, fields["star"] & fields["final"] == 1
        ends = np.cumsum(~star)[closes]
        self._check_stars(arrivals, {name: one[closes] for name, one in fields.items()})
        places = [
            side.places(fields[name][~star], bits=ID_BITS)
            for side, name in zip(self._sides, ("r_id", "s_id"), strict=True)
        ]
        r, s = self._sides
        order = self._plan.order
        if order.kind == "inner" and order.every:
            of_s = np.repeat(arrivals.sides, np.diff(ends, prepend=0))
            at = np.where(of_s, r.base + places[0], s.base + places[1])
            if self._rounds > 1:
                arrival = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
                oldest_first = np.lexsort((at, arrival))
                at, places = at[oldest_first], [one[oldest_first] for one in places]
            stars = star_positions(order, self._arrived, arrivals.starts, arrivals.stops, at, ends)
        else:
            stars = self._stars(len(arrivals.sides), len(places[0]), ends)
        return Results(
            r.held["id"][places[0]],
            s.held["id"][places[1]],
            stars,
            self._closed + len(arrivals.sides),
        )

    def _check_stars(self, arrivals: _Arrivals, stars: dict[str, np.ndarray]) -> None:
        """Raise an error unless stars closed the arrivals that they had to close."""
        names = np.where(stars["side"] == 1, stars["s_id"], stars["r_id"])
        closed = np.full(len(names), -1)
        for side in (0, 1):
            mine, own = stars["side"] == side, np.flatnonzero(arrivals.sides == side)
            if len(own):
                place = (names[mine] - arrivals.number[own[0]]) & ((1 << ID_BITS) - 1)
                closed[mine] = np.where(place < len(own), own[np.minimum(place, len(own) - 1)], -1)
        if self.precision == "adaptive":  # it may close groups of any size, one behind the other
            right = bool(np.all(np.diff(closed, prepend=-1) > 0))
            due = "some"
        else:
            wanted = self._due(len(arrivals.sides))
            right = np.array_equal(closed, wanted)
            due = str(len(wanted))
        if not right:
            raise DeviceError(
                f"{self.name}: {len(names)} stars came for {due} groups of arrivals, or in another "
                "order; please report this"
            )

    def _due(self, count: int) -> np.ndarray:
        """Return the last arrivals of the groups that the gateware closes among so many."""
        if self._mode is Precision.NONE:
            return np.empty(0, np.int64)
        return np.arange(self._group - 1, count, self._group)

    def _stars(self, arrivals: int, pairs: int, ends: np.ndarray) -> np.ndarray:
        """Return where the plan has stars, given where final stars came out."""
        kind = self._plan.order.kind
        if kind == "none":
            return np.append(ends, pairs)
        if kind == "outer":
            fills = (self._arrived + arrivals) % self._group == 0
            closed = len(ends) * self._group == arrivals
            return np.append(ends, pairs) if fills and not closed else ends
        return ends

    def _until_answered(self, simulation: Simulation, messages: np.ndarray) -> np.ndarray:
        # The simulator counts every star, and here most of them answer no message.
        parts = [simulation.run(messages, until_star=False, patience=self._patience)]
        began = moved = simulation.cycles
        while not self._answered(parts[-1]):
            part = simulation.step(max(1, (simulation.cycles - began) // EXACT))
            if len(part):
                parts.append(part)
                moved = simulation.cycles
            elif simulation.cycles - moved > self._patience:
                raise SimulationStuck(
                    simulation.name, simulation.cycles, self._patience, "no answer to a star"
                )
        return np.concatenate(parts)

    def _answered(self, out: np.ndarray) -> bool:
        return len(out) > 0 and bool(unpack(self._answers, out[-1:], "sync")[0])
