"""Simulated operators with streams made to measure."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from eddyline.cli.bench.steps import Steps
from eddyline.errors import DeviceError
from eddyline.plan import All, Compare, Layout, Order, Plan, Window, Word
from eddyline_hw.handshake.operator import HandshakeJoin
from eddyline_hw.layouts import message_layout
from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.splitjoin.precision import Precision
from eddyline_sim.packing import pack, unpack
from eddyline_sim.simulation import Simulation
from eddyline_sim.stages import PLACES, StageClock

__all__ = ["NEVER", "VALUES", "ChainRig", "Shape", "SplitRig", "Stream"]

BITS = 8  # of a word; what is measured does not depend on it, but compiling takes longer
ID_BITS = 16
VALUES = 1 << BITS
NEVER = 0  # of VALUES
PATIENCE = 1000  # quiet spells before an answer


@dataclass(frozen=True)
class Shape:
    """What is compiled: cores, branches of both trees, comparators and slots per core."""

    cores: int
    fan_out: int = 4
    fan_in: int = 4
    lanes: int = 1
    slots: int = 16

    def __str__(self) -> str:
        return f"k = {self.cores}, b = {self.fan_out}, c = {self.fan_in}, P = {self.lanes}"


def _plan() -> Plan:
    """``s.lo <= r.x <= s.hi``; windows are set at run time."""
    r = Layout((Word("x", BITS, False, "r.x"),), ())
    s = Layout((Word("lo", BITS, False, "s.lo"), Word("hi", BITS, False, "s.hi")), ())
    predicate = All((Compare(0, "ge", 0), Compare(0, "le", 1)))
    rows = Window("rows", 1)
    return Plan(r, s, predicate, rows, rows, Order("none"), False, ID_BITS)


class Stream:
    """Make messages. A pair matches in ``matching`` of ``VALUES`` cases, at random."""

    def __init__(self, plan: Plan, seed: int = 1):
        self._layout = message_layout(plan)
        self._random = np.random.default_rng(seed)
        self._sent = {"r": 0, "s": 0}

    def messages(self, sides: str, matching: int = NEVER) -> np.ndarray:
        """Return a tuple of each of these sides."""
        rows = pack(self._layout, {}, len(sides))
        number = np.frombuffer(sides.encode(), np.uint8) == ord("s")
        count = {"r": int((~number).sum()), "s": int(number.sum())}
        low = self._random.integers(0, VALUES + 1 - max(matching, 1), count["s"])
        words = {
            "r": {"x": self._random.integers(0, VALUES, count["r"])},
            # An empty interval matches nothing.
            "s": {"lo": low, "hi": low + matching - 1} if matching else {"lo": 1, "hi": 0},
        }
        for which, side in enumerate("rs"):
            columns: dict[str, Any] = {f"entry.{side}.words.{k}": v for k, v in words[side].items()}
            columns |= {"side": which, f"entry.{side}.id": self._ids(side, count[side])}
            rows[number == which] = pack(self._layout, columns, count[side])
        return rows

    def fixed(self, side: str, x: int = 0) -> np.ndarray:
        """Return one tuple; R tuples match if ``x`` is 1."""
        words = {"x": x} if side == "r" else {"lo": 1, "hi": 1}
        columns: dict[str, Any] = {f"entry.{side}.words.{k}": v for k, v in words.items()}
        columns |= {"side": int(side == "s"), f"entry.{side}.id": self._ids(side, 1)}
        return pack(self._layout, columns, 1)

    def values(self, messages: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the sides of the tuples among messages, R's values, and both bounds of S's."""
        tuples = messages[unpack(self._layout, messages, "star") == 0]
        sides = unpack(self._layout, tuples, "side")
        x = unpack(self._layout, tuples[sides == 0], "entry.r.words.x")
        low, high = (
            unpack(self._layout, tuples[sides == 1], f"entry.s.words.{w}") for w in ("lo", "hi")
        )
        return sides, x, low, high

    def star(self) -> np.ndarray:
        """Return a star, which is answered when all before it is complete."""
        return pack(self._layout, {"star": 1}, 1)

    def _ids(self, side: str, count: int) -> np.ndarray:
        first = self._sent[side]
        self._sent[side] += count
        return np.arange(first, first + count) % (1 << ID_BITS)


class SplitRig:
    """A SplitJoin operator in the simulator, with the clocks of its stages."""

    def __init__(self, shape: Shape, steps: Steps):
        self.shape = shape
        self.plan = _plan()
        window = shape.cores * shape.slots
        self.operator = SplitJoin(
            self.plan,
            cores=shape.cores,
            window_r=window,
            window_s=window,
            lanes=shape.lanes,
            fan_out=shape.fan_out,
            fan_in=shape.fan_in,
        )
        self.simulation = Simulation(
            StageClock(self.operator),
            name=f"splitjoin-bench-{shape.cores}",
            progress=steps.detail,
        )
        self.simulation.stamped = True
        self.output = self.operator.o.p.shape()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.simulation.close()

    @property
    def around(self) -> int:
        """Cycles of the latency that are neither in a tree nor in a scan."""
        whole = self.operator.latency("s", self.shape.cores)
        trees = self.operator.tree.latency + self.operator.merge["r"].latency
        return whole - trees - self.operator.rows("s", self.shape.cores)

    def configure(self, slots: int, mode: Precision, every: int = 1) -> None:
        """Start again with empty windows of ``slots`` tuples per core."""
        self.window = slots * self.shape.cores
        values = self.operator.settings(self.window, self.window, order_mode=mode, every=every)
        for name, value in values.items():
            self.simulation.set(name, value)
        self.simulation.reset()
        self.simulation.step(16)
        self.stream = Stream(self.plan)

    def fill(self, matching: int = NEVER) -> None:
        """Fill both windows and wait until all is quiet."""
        messages = self.stream.messages("rs" * self.window, matching)
        self.simulation.run(messages, until_star=False)
        self.settle()

    def settle(self) -> np.ndarray:
        """Wait until nothing comes out any more; return what came, and leave its times."""
        parts, times = [], []
        quiet = 64 * (2 + self.operator.latency("s", self.window) // 64)
        while True:
            part = self.simulation.step(quiet)
            parts.append(part)
            times.append(self.simulation.given_at)
            if not len(part):
                break
        self.simulation.given_at = np.concatenate(times)
        return np.concatenate(parts)

    def send(
        self, messages: np.ndarray, *, answers: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Send messages and wait for all that follows; return it, and times of in and out.

        ``answers`` to stars are waited for, however long it is quiet before them.
        """
        parts = [self.simulation.run(messages, until_star=False)]
        taken, times = self.simulation.taken_at, [self.simulation.given_at]
        for _ in range(PATIENCE):
            parts.append(self.settle())
            times.append(self.simulation.given_at)
            out = np.concatenate(parts)
            if int(self.field(out, "sync").sum()) >= answers:
                return out, taken, np.concatenate(times)
        raise DeviceError(f"{self.shape}: a star is not answered")

    def field(self, out: np.ndarray, name: str) -> np.ndarray:
        return unpack(self.output, out, name)

    def sums(self) -> dict[str, int]:
        """Return what the stages have added up since the reset."""
        names = [*PLACES, *(f"{name}_sum" for name in PLACES)]
        return {name: self.simulation.get(name) for name in names}


class ChainRig:
    """A lock-step handshake chain in the simulator."""

    def __init__(self, shape: Shape, slots: int, steps: Steps):
        self.shape = shape
        self.plan = _plan()
        self.window = shape.cores * slots
        self.operator = HandshakeJoin(
            self.plan,
            chain="lockstep",
            cores=shape.cores,
            window_r=self.window,
            window_s=self.window,
            lanes=shape.lanes,
            fan_in=shape.fan_in,
        )
        self.simulation = Simulation(
            self.operator, name=f"handshake-bench-{shape.cores}", progress=steps.detail
        )
        self.simulation.stamped = True
        for name, value in self.operator.settings(self.window, self.window).items():
            self.simulation.set(name, value)
        self.simulation.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.simulation.close()

    def completion(self) -> tuple[int, float]:
        """Return the cycles until the pairs of an R tuple that meets a whole window are out.

        Until the last one is, and on average. Its way through the chain is driven by the arrivals
        behind it, so the input is saturated; no other tuple has pairs that theirs would wait for.
        """
        stream = Stream(self.plan)
        before = [stream.fixed(side) for side in "rs" * (self.window + 8)]
        marked = stream.fixed("r", 1)
        behind = [stream.fixed(side) for side in "sr" * (self.window + 8)]
        own_id = self.window + 8  # so many R and S tuples came before
        messages = np.concatenate([*before, marked, *behind])
        first = self.simulation.run(messages, until_star=False)
        entered = self.simulation.taken_at[len(before)]
        given = self.simulation.given_at
        rest = self.simulation.step(64 * self.shape.cores + 1024)
        out = np.concatenate([first, rest])
        given = np.concatenate([given, self.simulation.given_at])
        result = self.operator.o.p.shape()
        r, s = (unpack(result, out, name) for name in ("r_id", "s_id"))
        own = (r == own_id) & (s < own_id)
        if int(own.sum()) != self.window:
            raise AssertionError(f"{int(own.sum())} pairs of {self.window}")
        taken = given[own] - entered
        return int(taken.max()), float(taken.mean())
