"""The checks of cells can fail: each is shown an engine that was broken on purpose."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.build import native
from eddyline.engine import indexed

pytestmark = pytest.mark.slow  # each compiles its own
NATIVE = Path(indexed.__file__).parent / "native"
FLAGS = [flag if flag != "-O3" else "-O0" for flag in native.FLAGS]
# By name: a line of a file, and what it becomes.
BUGS = {
    "a line that follows is not looked at": (
        "cells.hpp", "if (!behind.alive(next)) return looked;", "return looked;"
    ),
    "what is passed on is written over too early": (
        "cells.hpp", "behind.newest[behind.place(number)] = sequence;",
        "behind.newest[behind.place(number)] = sequence - 6000;",
    ),
    "all bands are taken for as wide as the first": (
        "cells.hpp", "box.high[d] - box.low[d] == sides_[s].width[d]", "true"
    ),
    "a tuple that is too old is found": (
        "cells.hpp", "u32 hits = young = SHAPE.all & from8(refs(at), start);",
        "u32 hits = young = SHAPE.all & from8(refs(at), start - 50);",
    ),
    "young tuples are written over": (
        "arrival.hpp", "if (!late) oldest[1 - SIDE] = visit->start;",
        "if (!late) oldest[1 - SIDE] = visit->start + 50;",
    ),
    "how far tuples reach is not noted where they end": (
        "grid.hpp", "(covers > reach[at]) | (covers > reach[end])", "(covers > reach[at])"
    ),
    "the youngest tuples are lost in a move": (
        "cells.hpp", "for (u32 i : by_age)",
        "if (!by_age.empty()) by_age.pop_back();\n        for (u32 i : by_age)",
    ),
}  # fmt: skip

# In a process of its own: what is broken may crash.
CHECK = """
import ctypes, sys
from eddyline.engine import indexed
from tests.host.engine import test_grid as checks
right, joined = indexed.library(), checks.joined
broken = indexed.declared(ctypes.CDLL(sys.argv[1]))
def chosen(*sides, engine, **options):
    # What is expected comes from the engine as it is.
    indexed.library = lambda progress=None: right if engine == "bisort" else broken
    return joined(*sides, engine=engine, **options)
checks.joined = chosen
for threads in (1, 2):
    checks.test_bands_of_one_width_that_others_follow(threads)
    for window in checks.WINDOWS:
        checks.test_cells_by_hash_find_what_sorted_subwindows_find(0.01, window, threads)
checks.test_a_wide_band_among_narrow_ones_is_found_from_where_it_ends()
checks.test_cells_find_what_sorted_subwindows_find(checks.BANDS, checks.uniform, "rows")
"""


def noticed(folder: Path, changes: list[tuple[str, str, str]]) -> bool:
    copy = folder / "native"
    shutil.copytree(NATIVE, copy)
    for file, right, wrong in changes:
        text = (copy / file).read_text()
        assert right in text, f"{file} has changed: {right}"
        (copy / file).write_text(text.replace(right, wrong))
    library = folder / "library.so"
    command = ["g++", *FLAGS, copy / "join.cpp", "-o", library, "-lpthread"]
    subprocess.run(command, check=True)
    done = subprocess.run([sys.executable, "-c", CHECK, library], capture_output=True)
    return bool(done.returncode)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_noticed(name, tmp_path):
    assert noticed(tmp_path, [BUGS[name]])
