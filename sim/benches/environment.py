"""Everything a bench needs around a block: clocks, reset, streams, scoreboard, watchdog."""

import json
import os
import random
from collections import deque
from itertools import cycle

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer

from sim.benches.ports import Payload, Port
from sim.benches.scoreboard import Scoreboard
from sim.benches.streams import StreamDriver, StreamMonitor, StreamSink

__all__ = ["Bench", "parameters"]

SETUP = json.loads(os.environ["EDDYLINE_BENCH"]) if "EDDYLINE_BENCH" in os.environ else {}


def parameters():
    """Return the parameters the test gave to ``run_bench``."""
    return SETUP["parameters"]


class Bench:
    """A block with a driver or a sink on every stream, and the contract checked on all of them.

    Nothing moves before :meth:`start`. The contract has two rules: an offer is held until it is
    taken (every monitor checks that), and ``valid`` does not wait for ``ready``. For the second,
    ``ready`` of one output after the other is flipped for a moment in the middle of a cycle, where
    nothing may change; a block that waits for some cycles is found by the stall pattern
    ``on demand``, with which it stands still.

    Parameters
    ----------
    dut
        cocotb's handle of the block.
    idle, stall : str
        Patterns of all drivers and all sinks.
    clocks : dict
        Stream prefix to the name of its clock domain, where that is not ``sync``.
    periods : dict
        Clock domain to its period in nanoseconds.

    Members
    -------
    drivers, sinks, monitors : dict
        By the stream's prefix in Verilog, such as ``i__0``.
    random : random.Random
        Seeded by the run and the test's name.
    ports, signals : dict
        Layouts of the streams and of all other ports.
    scoreboard : Scoreboard
        Fed by the monitors.
    cycle : int
        Cycles of ``sync`` since the end of reset.
    """

    def __init__(self, dut, *, idle="never", stall="never", clocks=None, periods=None):
        self.dut = dut
        # cocotb seeds the global generator for each test, from the run's seed and the test's name.
        self.random = random.Random(random.getrandbits(64))
        self.scoreboard = Scoreboard(dut)
        self.cycle = 0
        self._idle = idle
        self._stall = stall
        self._clocks = clocks or {}
        self._periods = {"sync": 10} | (periods or {})
        self._watchers = []
        ports = SETUP["ports"]
        self.ports = {name: Port.from_json(port) for name, port in ports["streams"].items()}
        self.signals = {name: Payload.from_json(one) for name, one in ports["signals"].items()}
        self.drivers, self.sinks, self.monitors = {}, {}, {}

    def _domain(self, name):
        domain = self._clocks.get(name, "sync")
        prefix = "" if domain == "sync" else f"{domain}_"
        return getattr(self.dut, f"{prefix}clk"), getattr(self.dut, f"{prefix}rst")

    async def start(self):
        """Start the clocks, reset the block and connect all streams."""
        resets = []
        for domain, period in self._periods.items():
            prefix = "" if domain == "sync" else f"{domain}_"
            Clock(getattr(self.dut, f"{prefix}clk"), period, unit="ns").start()
            resets.append(getattr(self.dut, f"{prefix}rst"))
            resets[-1].value = 1
        for name, port in self.ports.items():
            clock, reset = self._domain(name)
            monitor = StreamMonitor(self.dut, name, clock, port=port, reset=reset)
            self.monitors[name] = monitor
            if port.flow == "in":
                self.drivers[name] = StreamDriver(
                    self.dut, name, clock, port=port, idle=self._idle, random=self.random
                )
            elif "ready" in port.signals:
                self.sinks[name] = StreamSink(
                    monitor.bus.ready,
                    monitor.bus.valid,
                    clock,
                    stall=self._stall,
                    random=self.random,
                )
        for _ in range(2 * max(self._periods.values()) // self._periods["sync"] + 2):
            await RisingEdge(self.dut.clk)
        for reset in resets:
            reset.value = 0
        cocotb.start_soon(self._count())
        cocotb.start_soon(self._flip())
        await RisingEdge(self.dut.clk)

    def set(self, name, value):
        """Drive a port that is not part of a stream: an integer, or fields by name."""
        if self.signals[name].width:  # Verilog has no ports without bits
            getattr(self.dut, name).value = self.signals[name].encode(value)

    def get(self, name):
        """Read a port that is not part of a stream."""
        bits = int(getattr(self.dut, name).value) if self.signals[name].width else 0
        return self.signals[name].decode(bits)

    def watch(self, watcher):
        """Call ``watcher()`` at every rising edge, with the values from before it."""
        self._watchers.append(watcher)

    async def _count(self):
        edge = RisingEdge(self.dut.clk)
        while True:
            await edge
            self.cycle += 1
            for watcher in self._watchers:
                watcher()

    async def _flip(self):
        edge = FallingEdge(self.dut.clk)
        for monitor in cycle([self.monitors[name] for name in self.sinks]):
            await edge
            if len(self._periods) > 1:
                # Clocks of other domains have edges at halves of nanoseconds, but not here.
                await Timer(100, "ps")
            valid, ready, bits = monitor.sample()
            monitor.bus.ready.value = not ready
            await Timer(1, "ps")
            after, _, changed = monitor.sample()
            assert after == valid, f"{monitor.name}: valid depends on ready"
            assert changed == bits, f"{monitor.name}: payload depends on ready"
            monitor.bus.ready.value = ready

    def send(self, name, payloads):
        """Queue ``payloads`` on stream ``name``."""
        for payload in payloads:
            self.drivers[name].append(payload)

    def expect(self, name, payloads):
        """Expect ``payloads`` on stream ``name``, in this order and nothing else."""
        self.scoreboard.add_interface(self.monitors[name], deque(payloads))

    async def until(self, condition, *, limit, what="the end"):
        """Wait until ``condition()`` holds; fail after ``limit`` cycles."""
        edge = RisingEdge(self.dut.clk)
        for _ in range(limit):
            if condition():
                return
            await edge
        raise AssertionError(
            f"{what} did not come within {limit} cycles; "
            f"{self.scoreboard.remaining} payloads still expected, transfers so far: "
            f"{ {name: monitor.count for name, monitor in self.monitors.items()} }"
        )

    async def cycles(self, count):
        """Let ``count`` cycles pass."""
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def finish(self, *, limit, quiet=20):
        """Wait until everything expected has come, then see that nothing else does."""
        await self.until(lambda: not self.scoreboard.remaining, limit=limit)
        for sink in self.sinks.values():
            sink.set_stall("never")
        await self.cycles(quiet)
        self.scoreboard.check()
