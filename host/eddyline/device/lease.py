"""Leases: which process has which device, so that two on one machine never take the same.

A lease is a line in a file of the user's; it ends at the latest with the process that it is for,
whatever the way in which that ends.
"""

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from eddyline.build.cache import cache_directory
from eddyline.errors import DeviceError

__all__ = ["ADDRESSES", "known_addresses", "lease", "leased", "release"]

ADDRESSES = "EDDYLINE_FPGAS"
AGAIN = 0.05  # seconds from one try to the next


def known_addresses() -> list[str]:
    """Return the addresses of this machine's devices, as the environment gives them.

    They are names of devices, apart by blanks or commas. Those of devices that are told apart by
    nothing else have a number: ``sim:splitjoin?cores=4&window=1024#0``.
    """
    return [one for one in re.split(r"[\s,]+", os.environ.get(ADDRESSES, "")) if one]


def lease(
    addresses: Sequence[str], *, owner: int, amount: int = 1, patience: float = 0
) -> list[str]:
    """Lease some devices, until they are released or a process ends.

    Where too few are free, it is tried again for ``patience`` seconds.

    Raises
    ------
    DeviceError
        If fewer are free.
    """
    deadline = time.monotonic() + (patience if len({*addresses}) >= amount else 0)
    while True:
        with _leases() as file:
            held = _alive(file)
            free = [one for one in dict.fromkeys(addresses) if one not in held]
            if len(free) >= amount:
                _write(file, held | dict.fromkeys(free[:amount], (owner, _began(owner))))
                return free[:amount]
        if time.monotonic() >= deadline:
            used = ", ".join(f"{one} by process {held[one][0]}" for one in addresses if one in held)
            raise DeviceError(
                f"{amount} devices are asked for and {len(free)} of {len(addresses)} are free"
                + (f" (in use: {used})" if used else f": name them in {ADDRESSES}")
            )
        time.sleep(AGAIN)


def release(address: str, *, owner: int) -> None:
    """End a lease of a process that goes on."""
    with _leases() as file:
        held = _alive(file)
        if address in held and held[address][0] == owner:
            del held[address]
        _write(file, held)


def leased() -> dict[str, int]:
    """Return the devices in use, with the processes that have them."""
    with _leases() as file:
        return {address: owner for address, (owner, _) in _alive(file).items()}


@contextmanager
def _leases() -> Iterator[IO[str]]:
    path: Path = cache_directory("leases") / "devices.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
        file.flush()


def _write(file: IO[str], held: dict[str, tuple[int, int]]) -> None:
    file.seek(0)
    file.truncate()
    json.dump(held, file)


def _alive(file: IO[str]) -> dict[str, tuple[int, int]]:
    """Return the leases whose processes live. A process of the same number began later."""
    try:
        held = json.loads(file.read() or "{}")
    except ValueError:  # the writer was killed in the middle: its lease was not told to anyone
        held = {}
    return {
        address: (owner, began)
        for address, (owner, began) in held.items()
        if began and _began(owner) == began
    }


def _began(process: int) -> int:
    """Return when a process began, in ticks since the machine did; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])
