"""Drivers and monitors for Amaranth streams, on cocotb-bus."""

import cocotb
from cocotb.triggers import RisingEdge
from cocotb_bus.drivers import BusDriver
from cocotb_bus.monitors import BusMonitor

from sim.benches.patterns import pauses

__all__ = ["StreamDriver", "StreamMonitor", "StreamSink"]

NAMING = {"bus_separator": "__", "case_insensitive": False}


class StreamDriver(BusDriver):
    """Offer queued payloads on a stream that the block consumes, with idle cycles between them.

    An offer is held until it is taken. While nothing is offered the payload is random, so that a
    block that looks at it without ``valid`` is found out.

    Parameters
    ----------
    dut, name, clock
        As for every cocotb bus: the block, the prefix of the stream's signals, its clock.
    port : Port
        The stream's layout.
    idle : str
        A pattern of :mod:`sim.benches.patterns`.
    random : random.Random
        Source of the idle cycles and of the payloads nobody may look at.
    """

    def __init__(self, dut, name, clock, *, port, idle, random):
        self._signals = port.signals
        self.port = port
        self.random = random
        super().__init__(dut, name, clock, **NAMING)
        self._idle = pauses(idle, random)
        self._rest()

    def _rest(self):
        self.bus.valid.value = 0
        if "payload" in self.port.signals:
            self.bus.payload.value = self.random.getrandbits(self.port.payload.width)

    async def _driver_send(self, transaction, sync=True):
        if sync:
            await RisingEdge(self.clock)
        while next(self._idle):
            await RisingEdge(self.clock)
        if "payload" in self.port.signals:
            self.bus.payload.value = self.port.payload.encode(transaction)
        self.bus.valid.value = 1
        await RisingEdge(self.clock)
        while "ready" in self.port.signals and not self.bus.ready.value:
            await RisingEdge(self.clock)
        # The next transaction of the queue overwrites this in the same time step.
        self._rest()


class StreamSink:
    """Take payloads from a stream that the block produces, with backpressure.

    Parameters
    ----------
    ready
        Handle of the stream's ``ready``.
    valid
        Handle of the stream's ``valid``.
    clock
        Its clock.
    stall : str
        A pattern of :mod:`sim.benches.patterns`.
    random : random.Random
        Source of the stalls.
    """

    def __init__(self, ready, valid, clock, *, stall, random):
        self.ready = ready
        self.valid = valid
        self.clock = clock
        self.random = random
        self.set_stall(stall)
        self.blocked = False
        ready.value = 0
        cocotb.start_soon(self._run())

    def set_stall(self, stall):
        self._on_demand = stall == "on demand"
        self._stall = pauses("never" if self._on_demand else stall, self.random)

    async def _run(self):
        edge = RisingEdge(self.clock)
        while True:
            await edge
            willing = not next(self._stall) and not self.blocked
            if self._on_demand:
                willing = willing and bool(self.valid.value) and not self.ready.value
            self.ready.value = willing


class StreamMonitor(BusMonitor):
    """Report what is transferred on a stream, and guard its contract.

    Fails if the producer withdraws or edits an offer that was not taken. Every transfer goes to
    the callbacks (the scoreboard's, for instance); ``count`` says how many there were.

    Parameters
    ----------
    dut, name, clock
        As for every cocotb bus.
    port : Port
        The stream's layout.
    reset
        Handle of the reset of the stream's clock domain.
    """

    def __init__(self, dut, name, clock, *, port, reset):
        self._signals = port.signals
        self.port = port
        self.transferring = False
        self.stalled = False
        super().__init__(dut, name, clock, reset=reset, **NAMING)
        self._valid, self._ready, self._payload = (
            getattr(self.bus, signal, None) for signal in ("valid", "ready", "payload")
        )

    @property
    def count(self):
        return self.stats.received_transactions

    def sample(self):
        """Return ``valid``, ``ready`` and the payload's bits as they are now.

        The payload of no offer counts as zero: nobody may look at it.
        """
        valid = self._valid is None or int(self._valid.value) == 1
        ready = self._ready is None or int(self._ready.value) == 1
        bits = int(self._payload.value) if valid and self._payload is not None else 0
        return valid, ready, bits

    async def _monitor_recv(self):
        edge = RisingEdge(self.clock)
        offer = None
        while True:
            await edge
            if self.in_reset:
                offer = None
                continue
            valid, ready, bits = self.sample()
            if offer is not None:
                assert valid, f"{self.name}: offer {self._show(offer)} was withdrawn"
                assert bits == offer, (
                    f"{self.name}: offer {self._show(offer)} became {self._show(bits)} in a stall"
                )
            self.transferring = valid and ready
            self.stalled = valid and not ready
            offer = bits if self.stalled else None
            if self.transferring:
                self._recv(self.port.payload.decode(bits))

    def _show(self, bits):
        return self.port.payload.decode(bits)
