"""Measurements in a process of their own."""

import subprocess
import sys
from pathlib import Path

__all__ = ["lines_of"]


def lines_of(command: str) -> list[str]:
    """Return what a Python program prints, whose folder is that of the project."""
    told = subprocess.run(
        [sys.executable, "-c", command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    return told.stdout.splitlines()
