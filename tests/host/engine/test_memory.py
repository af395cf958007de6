"""A long stream through a small window takes no more memory than a short one."""

import json
import subprocess
import sys

import pytest

WINDOW = 1 << 14


def places(rows: int) -> list[dict]:
    """Join in a process of its own; return what it held at ten places of the stream."""
    command = [sys.executable, "-m", "bench.memory", str(rows), str(WINDOW), "8192"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def grown(found: list[dict], name: str) -> int:
    """Return by how much the second half holds more at most than the first, after its start."""
    half = len(found) // 2
    first, second = ([one[name] for one in some] for some in (found[1:half], found[half:]))
    return max(second) - max(first)


@pytest.fixture(scope="module")
def long() -> list[dict]:
    return places(200 * WINDOW)


def test_memory_of_the_process_does_not_grow(long):
    assert len(long) == 10
    rows = long[-1]["rows"] - long[4]["rows"]
    # Ids and words alone are 12 bytes a row, so it could keep a twelfth of them at the most.
    assert grown(long, "resident") < rows


def test_memory_of_the_windows_does_not_grow(long):
    assert grown(long, "engine") <= 0.1 * long[4]["engine"]
    assert long[-1]["engine"] < 200 * 2 * WINDOW
