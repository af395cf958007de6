"""Where the rows of a unit meet: an engine of this process, or any device."""

import logging
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from eddyline.device import Device, Tuples
from eddyline.device.cpu import CpuDevice
from eddyline.device.discovery import open_device
from eddyline.engine.choice import choose
from eddyline.engine.part import ShareEngine, Stores
from eddyline.errors import DeviceError
from eddyline.plan import Plan
from eddyline.results import Pairs

__all__ = ["Meeting", "Pairs", "open_meeting"]

log = logging.getLogger(__name__)


class Meeting(Protocol):
    """Joins batches of tuples with what is stored."""

    emptied: bool
    """Whether the last batch has left nothing stored, so that it must be loaded again."""
    lost_rows: int
    """Rows that the device could not store, with parts of it that are off."""

    def load(self, tuples: Tuples) -> None:
        """Store tuples whose results are known."""

    def join(self, tuples: Tuples, stores: Stores | None, *, more: bool = False) -> Iterator[Pairs]:
        """Join a batch and store some of it: all, by default.

        It is joined completely, unless ``more`` follows that may complete it.
        """

    def close(self) -> None: ...


def open_meeting(plan: Plan, device: str, *, units: int) -> Meeting:
    """Open what joins the tuples of one of ``units`` units that rows are shown to.

    Raises
    ------
    DeviceError
        If the device cannot do the plan, or cannot store a share.
    """
    name, _, options = device.partition("?")
    if name in ("auto", "cpu") and "threads=" not in options:
        # Parallelism comes from the units.
        device = f"cpu?threads=1&{options}".rstrip("&")
    opened = open_device(device)
    if isinstance(opened, CpuDevice):
        return _Engine(plan, opened, units)
    if units > 1:
        raise DeviceError(
            f"device {device!r} stores every row that it is shown, so {units} units would each "
            "hold all of them: use 1 unit, an equality in the predicate, or device cpu"
        )
    return _Device(plan, opened)


class _Engine:
    """An engine of the cpu device, which can show a tuple to the others without storing it."""

    emptied = False
    lost_rows = 0

    def __init__(self, plan: Plan, device: CpuDevice, units: int):
        choice = choose(plan, device.engine)
        # These look up and store in one step, arrival by arrival, unless they store a share.
        self._one_step = units == 1 and choice.engine in ("hash", "grid")
        self._engine: ShareEngine = choice.open_share(
            plan,
            threads=device.threads,
            subwindows=device.subwindows or 0,
            shares=units if units > 1 else 0,
        )

    def load(self, tuples: Tuples) -> None:
        if self._one_step:
            for _ in self.join(tuples, None):
                pass
            return
        ones = (np.ones(len(tuples.r), np.uint8), np.ones(len(tuples.s), np.uint8))
        self._engine.load(tuples, ones)

    def join(self, tuples: Tuples, stores: Stores | None, *, more: bool = False) -> Iterator[Pairs]:
        self._engine.push(tuples, stores)
        while (part := self._engine.pull()) is not None:
            yield part.r_id, part.s_id

    def close(self) -> None:
        self._engine.close()


class _Device:
    """A device. One that needs further input to finish a batch is flushed after the last."""

    def __init__(self, plan: Plan, device: Device):
        self._device = device.__enter__()
        self._device.configure(plan)
        self._pushed = self._closed = self.lost_rows = 0
        self.emptied = False

    def load(self, tuples: Tuples) -> None:
        self.emptied = False
        for _ in self._meet(tuples):
            pass

    def join(self, tuples: Tuples, stores: Stores | None, *, more: bool = False) -> Iterator[Pairs]:
        assert stores is None
        yield from self._meet(tuples)
        self._count_lost()
        if self._closed < self._pushed and not more:
            last = self._device.flush()
            self._closed = last.closed
            self.emptied = True
            yield last.r_id, last.s_id

    def _meet(self, tuples: Tuples) -> Iterator[Pairs]:
        self._device.push(tuples)
        self._pushed += len(tuples)
        while True:
            results = self._device.pull()
            self._closed = results.closed
            if results.nothing:
                return
            yield results.r_id, results.s_id

    def _count_lost(self) -> None:
        lost = int(self._device.counters().get("lost_rows", 0))
        if lost and not self.lost_rows:
            log.warning(
                "%s loses rows with cores that are off: their pairs with later rows are missing",
                self._device.name,
            )
        self.lost_rows = lost

    def close(self) -> None:
        self._device.__exit__(None, None, None)
