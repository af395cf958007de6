"""Stream joins over sliding windows, on any predicate and any device.

>>> import eddyline
>>> reader = eddyline.join(r, s, on="abs(r.x - s.a) <= 10", window=eddyline.rows(1024))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eddyline.api import join
    from eddyline.device.discovery import open_device
    from eddyline.errors import (
        DataError,
        DeviceError,
        EddylineError,
        MachineError,
        QueryError,
    )
    from eddyline.plan import Plan
    from eddyline.query import Query
    from eddyline.query.window import rows, time, unbounded

__all__ = [
    "DataError",
    "DeviceError",
    "EddylineError",
    "MachineError",
    "Plan",
    "Query",
    "QueryError",
    "join",
    "open_device",
    "rows",
    "time",
    "unbounded",
]

_HOMES = {
    "eddyline.api": ("join",),
    "eddyline.device.discovery": ("open_device",),
    "eddyline.errors": (
        "DataError",
        "DeviceError",
        "EddylineError",
        "MachineError",
        "QueryError",
    ),
    "eddyline.plan": ("Plan",),
    "eddyline.query": ("Query",),
    "eddyline.query.window": ("rows", "time", "unbounded"),
}


# Loaded on first use: gateware needs only eddyline.plan, and --help needs nothing at all.
def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'eddyline' has no attribute {name!r}")
