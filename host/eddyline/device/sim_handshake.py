"""The handshake join's gateware as a device, simulated cycle by cycle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eddyline.device import Counters, Results, Tuples
from eddyline.device.reorder import Reorder
from eddyline.device.simulated import PATIENCE, SimulatedDevice
from eddyline.errors import DeviceError
from eddyline.plan import Plan
from eddyline_hw.handshake.admission import Policy
from eddyline_hw.handshake.geometry import Chain
from eddyline_hw.handshake.operator import HandshakeJoin
from eddyline_hw.layouts import result_layout
from eddyline_sim.packing import unpack

__all__ = ["HandshakeDevice"]


class HandshakeDevice(SimulatedDevice):
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
    operator_counters = {
        "throttled": "stalls_throttle",
        "paced": "stalls_pace",
        "waited": "stalls_entry",
        "dropped_tuples": "dropped_tuples",
    }
    core_counters = ("comparisons", "dropped_results")

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
        super().__init__(
            cores=cores, window=window, comparators=comparators, trace=trace, progress=progress
        )
        if fan_in not in range(2, 9):
            raise ValueError(f"fan_in={fan_in} is not from 2 to 8")
        if chain == "asynchronous" and memory == "shift":
            raise ValueError("memory=shift is for chain=lockstep (asynchronous: lutram or bram)")
        self.chain: Literal["lockstep", "asynchronous"] = chain
        self.fan_in = fan_in
        self.admission = admission
        self.memory = memory

    @property
    def lossy(self) -> bool:
        """Tuples may be dropped on the way in, and nobody knows which."""
        return self.admission == "drop_new"

    def counters(self) -> Counters:
        return super().counters() | {
            "dropped_results": self._totals["dropped_results"],
            "queue_peak": self._peak,
        }

    def _refuse(self, plan: Plan) -> None:
        if self.lossy and plan.order.kind != "none":
            raise DeviceError(
                f"{self.name}: with admission=drop_new nobody knows which tuples are missing, and "
                f"so not when an arrival is complete: order {plan.order.kind} cannot be restored"
            )

    @property
    def _kind(self) -> str:
        return f"handshake-{self.chain}"

    @property
    def _design(self) -> tuple[object, ...]:
        return self.chain, self.fan_in, self.memory

    def _build(self, plan: Plan, capacity: dict[str, int]) -> HandshakeJoin:
        return HandshakeJoin(
            plan,
            chain=self.chain,
            fan_in=self.fan_in,
            cores=self.cores,
            window_r=capacity["r"],
            window_s=capacity["s"],
            lanes=self.comparators,
            window=self.memory,
        )

    def _lanes_of(self, operator: Any) -> int:
        return operator.chain.lanes

    def _settings(self) -> dict[str, int]:
        return self._operator.settings(
            self._sizes["r"],
            self._sizes["s"],
            policy=Policy[self.admission.upper()],
            keep_r=self._plan.window_r.kind == "unbounded",
            keep_s=self._plan.window_s.kind == "unbounded",
        )

    def _begin(self) -> None:
        sizes = self._sizes
        chain = Chain(self.cores, sizes["r"], sizes["s"], self.chain)
        self._reorder = Reorder(self._plan, chain, lossy=self.lossy)
        self._answers = result_layout(self._rows)
        # A flush moves every tuple through the whole chain.
        slots = sum(max(size, self.cores) for size in sizes.values())
        self._patience = PATIENCE + 8 * slots * (max(sizes.values()) // self.cores + 4)

    def _join(self, tuples: Tuples) -> Results:
        self._reorder.arrive(tuples)
        self._add(self._send(tuples))
        return self._reorder.take()

    def _end(self) -> Results:
        self._add(self._send(None))
        return self._reorder.flush()

    def _add(self, out: np.ndarray) -> None:
        pairs = out[unpack(self._answers, out, "star") == 0]
        self._reorder.add(
            unpack(self._answers, pairs, "r_id").astype(np.uint32),
            unpack(self._answers, pairs, "s_id").astype(np.uint32),
        )

    def _read_cores(self) -> None:
        """Add up what the cores have counted, and check that nothing was lost."""
        super()._read_cores()
        if self._totals["dropped_results"] and self.admission != "drop_results":
            raise DeviceError(
                f"{self.name}: {self._totals['dropped_results']} results were lost in a queue that "
                "should have had room; please report this"
            )
