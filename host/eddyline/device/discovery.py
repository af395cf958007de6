"""Which devices there are, and how to open one by its name."""

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import parse_qsl

from eddyline.device import Device
from eddyline.errors import DeviceError, MachineError

__all__ = ["DEVICES", "Kind", "Option", "automatic", "open_device"]

MOST = 10**9 - 1
SERVED = "unix:"


@dataclass(frozen=True)
class Option:
    """A setting in a device's name: one of some words or, if there are none, a number.

    A default of None leaves the choice to the device.
    """

    name: str
    words: tuple[str, ...]
    default: int | str | None

    @property
    def takes(self) -> str:
        return "|".join(self.words) or "NUMBER"

    def read(self, text: str) -> int | str:
        if self.words:
            if text not in self.words:
                known = ", ".join(self.words)
                raise DeviceError(f"device option {self.name}={text!r} is not one of: {known}")
            return text
        if not re.fullmatch("[1-9][0-9]{0,8}", text):
            raise DeviceError(
                f"device option {self.name}={text!r} is not a number from 1 up (to {MOST})"
            )
        return int(text)


@dataclass(frozen=True)
class Kind:
    """A kind of device: where its class is, and what it is for.

    Keywords of the class that are numbers or ``Literal`` words are options in a device's name.
    """

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

    def options(self) -> dict[str, Option]:
        keywords = inspect.signature(self.load(), eval_str=True).parameters
        found = (_option(name, one) for name, one in keywords.items())
        return {one.name: one for one in found if one}


# In the order in which "auto" tries them. A variant of a kind has a colon in its name.
DEVICES = {
    "cpu": Kind("eddyline.device.cpu", "CpuDevice", "indexed windows, on all cores"),
    "reference": Kind(
        "eddyline.device.reference", "ReferenceDevice", "the definition in plain Python, slow"
    ),
    "sim:handshake": Kind(
        "eddyline.device.sim_handshake",
        "HandshakeDevice",
        "the handshake join's gateware, cycle by cycle",
    ),
    "sim:splitjoin": Kind(
        "eddyline.device.sim_splitjoin",
        "SplitJoinDevice",
        "SplitJoin's gateware, cycle by cycle",
    ),
}


def automatic() -> str | None:
    """Return the kind that ``auto`` stands for here."""
    return next((name for name, kind in DEVICES.items() if kind.missing() is None), None)


def open_device(
    spec: str = "auto",
    *,
    trace: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Device:
    """Return the device called ``spec``; enter it to use it.

    ``spec`` is a kind, such as ``cpu``, or a variant of one, such as ``sim:handshake``, with
    options after it: ``cpu?threads=1``, ``sim:handshake?cores=16&chain=asynchronous``. ``auto``
    takes the fastest kind that is here. ``unix:FILE`` is a device that 'eddyline serve' owns.

    Parameters
    ----------
    spec : str
        Kind and options.
    trace : path, optional
        Where a simulator writes its waveforms.
    progress : function of a text, optional
        Is told how a device gets ready, where that takes long.

    Raises
    ------
    DeviceError
        If there is no such device or option, or if the options do not go together.
    MachineError
        If the device's packages are missing.
    """
    if spec.startswith(SERVED):
        from eddyline.device.served import ServedDevice

        return ServedDevice(spec.removeprefix(SERVED))
    name, _, query = spec.partition("?")
    if name == "auto":
        name = automatic() or name
    if name not in DEVICES:
        raise DeviceError(_unknown(name))
    kind = DEVICES[name]
    why = kind.missing()
    if why:
        raise MachineError(f"device {name!r} is not available here: {why}")
    options: dict[str, Any] = dict(_options(name, query, kind.options()))
    keywords = inspect.signature(kind.load()).parameters
    if trace and "trace" not in keywords:
        simulators = ", ".join(one for one in DEVICES if one.startswith("sim:"))
        raise DeviceError(f"device {name!r} has no waveforms to trace (try: {simulators})")
    for keyword, value in (("trace", trace), ("progress", progress)):
        if value and keyword in keywords:
            options[keyword] = value
    try:
        return kind.load()(**options)
    except ValueError as error:
        raise DeviceError(f"device {name!r}: {error}") from None


def _unknown(name: str) -> str:
    kind, _, variant = name.partition(":")
    variants = [one for one in DEVICES if one.startswith(f"{kind}:")]
    if variants and variant:
        return f"device {kind!r} has no variant {variant!r} (known: {', '.join(variants)})"
    if variants:
        return f"device {kind!r} needs a variant (known: {', '.join(variants)})"
    if kind in DEVICES:
        return f"device {kind!r} has no variants: write {kind!r} for {name!r}"
    return f"no device called {name!r} (known: auto, {', '.join(DEVICES)})"


def _options(name: str, query: str, known: dict[str, Option]) -> dict[str, int | str]:
    options: dict[str, int | str] = {}
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            takes = ", ".join(known) or "none"
            raise DeviceError(f"device {name!r} has no option {key!r} (it takes: {takes})")
        value = known[key].read(text)
        if key in options:
            raise DeviceError(
                f"device option {key} is given twice, as {options[key]} and as {value}: leave one"
            )
        options[key] = value
    return options


def _option(name: str, keyword: inspect.Parameter) -> Option | None:
    """Read an option off its annotation; other keywords are for programs."""
    kind: Any = keyword.annotation
    if get_origin(kind) in (Union, UnionType):
        several = [one for one in get_args(kind) if one is not NoneType]
        kind = several[0] if len(several) == 1 else None
    if kind is int:
        return Option(name, (), keyword.default)
    if get_origin(kind) is Literal:
        return Option(name, get_args(kind), keyword.default)
    return None
