"""Threads of the native engine."""

import subprocess
import sys

# In a process of its own, whose memory is too small for the stacks of so many.
JOIN = """
import resource
import pyarrow as pa
import eddyline
from eddyline.engine.indexed import library
library()
resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)
table = pa.table({"x": [1, 2, 3]})
eddyline.join(table, table, "abs(r.x - s.x) <= 1", device="cpu?threads=2000").read_all()
"""


def test_threads_that_cannot_be_started_are_an_error():
    done = subprocess.run([sys.executable, "-c", JOIN], capture_output=True, text=True, timeout=300)
    assert "of 2000 threads: ask for fewer" in done.stderr
    assert "DeviceError" in done.stderr
