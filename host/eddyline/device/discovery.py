"""Which devices there are, and how to open one by its name."""

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl

from eddyline.device import Device
from eddyline.errors import DeviceError, MachineError

__all__ = ["DEVICES", "Kind", "open_device"]


@dataclass(frozen=True)
class Kind:
    """A kind of device: where its class is, and what it is for."""

    module: str
    cls: str
    summary: str

    def load(self) -> Callable[..., Device]:
        return getattr(importlib.import_module(self.module), self.cls)

    def missing(self) -> str | None:
        """Say why devices of this kind cannot be opened here, or nothing if they can."""
        try:
            self.load()
        except ImportError as error:
            return f"{error} (install the packages again with: make clean demo)"
        return None


# In the order in which "auto" tries them.
DEVICES = {
    "cpu": Kind("eddyline.device.cpu", "CpuDevice", "nested loop in vector code, all cores"),
    "reference": Kind(
        "eddyline.device.reference", "ReferenceDevice", "the definition in plain Python, slow"
    ),
}


def open_device(spec: str = "auto") -> Device:
    """Return the device called ``spec``; enter it to use it.

    ``spec`` is a kind, such as ``cpu``, with options after it: ``cpu?threads=1``. ``auto`` takes
    the fastest kind that is here.

    Raises
    ------
    DeviceError
        If there is no such device or option.
    MachineError
        If the device's packages are missing.
    """
    name, _, query = spec.partition("?")
    if name == "auto":
        name = next(kind for kind, entry in DEVICES.items() if entry.missing() is None)
    if name not in DEVICES:
        raise DeviceError(f"no device called {name!r} (known: auto, {', '.join(DEVICES)})")
    why = DEVICES[name].missing()
    if why:
        raise MachineError(f"device {name!r} is not available here: {why}")
    cls = DEVICES[name].load()
    return cls(**_options(name, query, cls))


def _options(name: str, query: str, cls: Callable[..., Device]) -> dict[str, int]:
    known = [one for one in inspect.signature(cls).parameters if one != "self"]
    options = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            takes = ", ".join(known) or "none"
            raise DeviceError(f"device {name!r} has no option {key!r} (it takes: {takes})")
        if not re.fullmatch("[1-9][0-9]{0,5}", value):
            raise DeviceError(f"device option {key}={value!r} is not a number from 1 up")
        options[key] = int(value)
    return options
