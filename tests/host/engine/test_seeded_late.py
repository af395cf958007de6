"""The checks of late tuples can fail: each is shown an engine that was broken on purpose."""

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
# By name: a line of a file, what it becomes, and the engine that must be seen to fail.
BUGS = {
    "nobody is too far away in time": (
        "join.cpp", "theirs < start || !join.near(r, s)", "theirs < start", "bisort"
    ),
    "equal keys are never too far away": (
        "join.cpp", "keep[k] &= near(at[0][k], at[1][k]);", "", "hash"
    ),
    "what is kept aside is not looked up": (
        "lookup.hpp", "tasks_.push_back({side, int(w), 0, n, true});", ";", "bisort"
    ),
    "times of a subwindow are those of its last batch": (
        "chain.hpp", "open.oldest = std::min(open.oldest, some.oldest);",
        "open.oldest = some.oldest;", "bisort"
    ),
    "what is put together leaves out what was kept aside": (
        "chain.hpp", "        one.aside->entries(all);\n", "", "bisort"
    ),
    "the watermark of the wrong side expires": (
        "join.cpp", "reach_.on ? watermark_[1 - side]", "reach_.on ? watermark_[side]", "bisort"
    ),
    "the last arrival says what is too old": (
        "join.cpp", "i64 next = reach_.on ? watermark_[1 - side] : batch_.now;",
        "i64 next = batch_.now;", "bisort"
    ),
    "a watermark is ahead of what waits": (
        "join.cpp", "waiting_.size() ? &waiting_.back() : open_ ? &batch_ : nullptr", "nullptr",
        "bisort"
    ),
    "windows begin where the arrival before had them": (
        "columns.hpp", "            high = at;\n", "            low = high = at;\n", "hash"
    ),
    "subwindows that are far away in time are not": (
        "late.hpp", "beyond(from, other_to, of[1 - side])", "false", "bisort"
    ),
    "nothing ever expires": (
        "join.cpp", "for (auto& lookup : lookups_) lookup->expire(side, begin);", "", "bisort"
    ),
}  # fmt: skip


# In a process of its own: what is broken may crash.
CHECK = """
import ctypes, sys
from hypothesis import Phase, settings
settings.register_profile("quick", phases=[Phase.generate], derandomize=True)
settings.load_profile("quick")
from eddyline.engine import indexed
from tests.host.engine import test_late as checks
library, engine = sys.argv[1:]
known = indexed.declared(ctypes.CDLL(library))
indexed.library = lambda progress=None: known
checks.test_late_tuples_are_found_where_windows_have_many_subwindows(engine)
checks.test_pairs_are_those_of_the_rows_in_order(engine)
checks.test_times_at_both_ends_of_the_clock()
checks.test_what_only_late_rows_can_meet_is_not_looked_up()
if engine == "bisort":
    checks.test_small_subwindows_are_put_together_with_what_they_keep_aside(engine, checks.BAND)
"""


def noticed(folder: Path, engine: str) -> bool:
    library = folder / "library.so"
    command = ["g++", *FLAGS, folder / "native" / "join.cpp", "-o", library, "-lpthread"]
    subprocess.run(command, check=True)
    done = subprocess.run([sys.executable, "-c", CHECK, library, engine], capture_output=True)
    return bool(done.returncode)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_noticed(name, tmp_path):
    file, right, wrong, engine = BUGS[name]
    copy = tmp_path / "native"
    shutil.copytree(NATIVE, copy)
    text = (copy / file).read_text()
    assert text.count(right) == 1, f"{file} has changed: {right}"
    (copy / file).write_text(text.replace(right, wrong))
    assert noticed(tmp_path, engine)


def test_nothing_is_noticed_without_a_bug(tmp_path):
    shutil.copytree(NATIVE, tmp_path / "native")
    assert not noticed(tmp_path, "bisort")
