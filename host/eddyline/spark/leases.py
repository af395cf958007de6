"""The device of a unit: the one that Spark's scheduling gives its executor, or one of our own."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyspark import TaskContext

from eddyline.biclique.unit import Unit
from eddyline.device.lease import known_addresses, lease, release
from eddyline.query import Query

__all__ = ["FPGA", "HeldUnit", "held"]

FPGA = "fpga"
PATIENCE = 30  # seconds; other tasks of this machine give devices back when they end


@contextmanager
def held(device: str) -> Iterator[str]:
    """Yield the device that a name stands for here; all but ``fpga`` stand for themselves.

    Where Spark schedules none (``local[N]``), one is leased for as long as it is held.
    """
    if device != FPGA:
        yield device
    elif scheduled := _scheduled():
        yield _named(scheduled)
    else:
        owner = os.getpid()
        [address] = lease(known_addresses(), owner=owner, patience=PATIENCE)
        try:
            yield _named(address)
        finally:
            release(address, owner=owner)


class HeldUnit(Unit):
    """A unit that holds its device until it is closed.

    One on a leased device is not ``lasting``: between batches, others may want the device, and a
    worker process that waits for its next task cannot be asked for it.
    """

    def __init__(self, query: Query, device: str, *, units: int):
        with ExitStack() as stack:
            super().__init__(query, stack.enter_context(held(device)), units=units)
            self._held = stack.pop_all()
        self.lasting = device != FPGA or _scheduled() is not None

    def close(self) -> None:
        with self._held:
            super().close()


def _scheduled() -> str | None:
    context = TaskContext.get()
    given = context.resources().get(FPGA) if context else None
    return given.addresses[0] if given else None


def _named(address: str) -> str:
    """Return the device at an address, which may have a number besides."""
    return address.partition("#")[0]
