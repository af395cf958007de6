"""The device of a task: the one that Spark's scheduling gives its executor, or one of our own."""

import os
from functools import cache

from pyspark import TaskContext

from eddyline.device.lease import known_addresses, lease

__all__ = ["FPGA", "resolved"]

FPGA = "fpga"


def resolved(device: str) -> str:
    """Return the device that a name stands for here; all but ``fpga`` stand for themselves."""
    if device != FPGA:
        return device
    context = TaskContext.get()
    given = context.resources().get(FPGA) if context else None
    address = given.addresses[0] if given else _own()
    return address.partition("#")[0]


@cache
def _own() -> str:
    """Lease a device for this worker process, where Spark schedules none (``local[N]``)."""
    return lease(known_addresses(), owner=os.getpid())[0]
