"""List the devices a join can run on, their options, and why one cannot be used here.

Options follow a device's name: --device "cpu?threads=2". Several are joined by &.
"""

import argparse

from eddyline.device.discovery import DEVICES, Option, automatic

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    wide = max(12, *(len(name) + 2 for name in DEVICES))
    first = automatic()
    for name, kind in DEVICES.items():
        why = kind.missing()
        if why:
            print(f"{name:{wide}}not here: {why}")
            continue
        state = "ready" + (", auto" if name == first else "")
        print(f"{name:{wide}}{state:14}{kind.summary}")
        for option in kind.options().values():
            print(f"{'':{wide}}{_line(option)}")
    return 0


def _line(option: Option) -> str:
    default = "chosen by the device" if option.default is None else option.default
    return f"{option.name}={option.takes} (default: {default})"
