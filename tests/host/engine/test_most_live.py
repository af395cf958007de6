"""A window of more rows than numbers of 32 bits tell apart is an error: partners would be lost."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.build import native
from eddyline.engine import indexed

pytestmark = pytest.mark.slow  # compiles its own
NATIVE = Path(indexed.__file__).parent / "native"
FLAGS = [flag if flag != "-O3" else "-O0" for flag in native.FLAGS]
ALL, FEW = "MOST_LIVE = u64(1) << 31;", "MOST_LIVE = u64(1) << 13;"  # 2^31 rows take too long

CHECK = """
import ctypes, sys
import numpy as np, pyarrow as pa
from eddyline.device.cpu import CpuDevice
from eddyline.engine import indexed
from eddyline.errors import DeviceError
from eddyline.io.source import ArrowSource
from eddyline.plan import Order
from eddyline.query import Query
from eddyline.query.window import rows, unbounded
from eddyline.session import Session

library = indexed.declared(ctypes.CDLL(sys.argv[1]))
indexed.library = lambda progress=None: library
table = pa.table({"x": np.arange(20_000, dtype=np.int32)})

def run(on, order, engine, window):
    query = Query(table.schema, table.schema, on, window, window, order=Order(order))
    sources = [[ArrowSource(table, name="test")] for _ in "rs"]
    with CpuDevice(engine=engine, threads=1) as device:
        for _ in Session(query, *sources, device, batch=512):
            pass

for on, order, engine in (
    ("r.x = s.x", "none", "hash"), ("r.x = s.x", "outer", "hash"),
    ("abs(r.x - s.x) <= 1", "none", "grid"),
):
    run(on, order, engine, rows(4000))  # of which there are never more
    try:
        run(on, order, engine, unbounded())
    except DeviceError as error:
        assert "more than 8192 rows at once" in str(error), error
        continue
    raise AssertionError("partners were lost")
run("r.x = s.x", "outer", "bisort", unbounded())
"""


def test_too_many_rows_in_a_window_are_an_error(tmp_path):
    copy = tmp_path / "native"
    shutil.copytree(NATIVE, copy)
    text = (copy / "join.cpp").read_text()
    assert text.count(ALL) == 1
    (copy / "join.cpp").write_text(text.replace(ALL, FEW))
    library = tmp_path / "library.so"
    command = ["g++", *FLAGS, copy / "join.cpp", "-o", library, "-lpthread"]
    subprocess.run(command, check=True)
    done = subprocess.run([sys.executable, "-c", CHECK, library], capture_output=True, text=True)
    assert not done.returncode, done.stderr
