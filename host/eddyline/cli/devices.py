"""List the devices a join can run on, and why one cannot be used here."""

import argparse

from eddyline.device.discovery import DEVICES

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    automatic = next((name for name, kind in DEVICES.items() if kind.missing() is None), None)
    for name, kind in DEVICES.items():
        why = kind.missing()
        state = f"not here: {why}" if why else "ready" + (", auto" if name == automatic else "")
        print(f"{name:12}{state:14}{kind.summary}" if not why else f"{name:12}{state}")
    return 0
