"""The checks of the structures can fail: each is shown a structure that was broken on purpose."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from eddyline.build import native
from eddyline.engine import structure
from eddyline.engine.structure import Structure
from tests.host.engine import test_bisort, test_hash, test_rap, test_wib
from tests.host.engine.model import Checked, live

pytestmark = pytest.mark.slow  # each compiles its own
NATIVE = Path(structure.__file__).parent / "native"
# Only what a structure on its own needs, and quickly.
FLAGS = [flag if flag != "-O3" else "-O1" for flag in native.FLAGS]


def lives(engine: str) -> Callable[[], None]:
    def run() -> None:
        for seed in range(60):
            live(engine, seed)

    return run


def three_adjustments() -> None:
    test_rap.test_three_adjustments_suffice("normal", 0.01, 4)


def sliding() -> None:
    test_hash.test_a_sliding_window_goes_round_the_ring(0, 7)


def rising() -> None:
    test_wib.test_leaves_stay_balanced("rising", 1000)


def sealed() -> None:
    test_bisort.test_a_sealed_array_keeps_nothing_but_tuples_and_index(5000)


@dataclass(frozen=True)
class Bug:
    """A line of a header, what it becomes, and the check that must notice."""

    file: str
    right: str
    wrong: str
    check: Callable[[], None]


BUGS = {
    "equality overflows at the largest key": Bug(
        "bisort.hpp", "if (x == LAST) return size_;", "", lives("bisort")
    ),
    "upper bounds are taken for sorted": Bug(
        "bisort.hpp",
        "if (monotone_) monotone_ = std::is_sorted(high_.data(), high_.data() + whole);",
        "",
        lives("bisort"),
    ),
    "the insertion buffer is not looked up": Bug(
        "bisort.hpp", "if (buffer_.size()) probe_buffer", "if (false) probe_buffer", lives("bisort")
    ),
    "a sealed array keeps its spare": Bug(
        "bisort.hpp", "next_refs_ = Array<u32>();", "next_refs_ = {};", sealed
    ),
    "an entry is read beyond its tuples": Bug(
        "llat.hpp", "if (n - i < PARTITION) hits &= (u32(1) << (n - i)) - 1;", "", lives("rap")
    ),
    "intervals do not reach into later leaves": Bug(
        "wib.hpp", "p < reach_.size() && reach_[p] < batch.b[i]", "p == place", lives("wib")
    ),
    "leaves stand where they stood before a split": Bug(
        "wib.hpp", "order_.insert(order_.begin() + place + 1, right);", "order_.push_back(right);",
        lives("wib"),
    ),
    "intervals do not reach into later partitions": Bug(
        "rap.hpp", "p < reach_.size() && reach_[p] < b", "p < reach_.size() && p == at",
        lives("rap"),
    ),
    "a splitter is a distance, not a value": Bug(
        "rap.hpp", "splitters.push_back(one.min + (", "splitters.push_back((", three_adjustments
    ),
    "entries are rounded down": Bug(
        "rap.hpp",
        "size_t(capacity * sigma / partitions) + 1",
        "size_t(capacity * sigma / partitions)",
        test_rap.test_twice_as_many_entries_as_partitions_hold_every_skew,
    ),
    "a split puts the border on the wrong side": Bug(
        "wib.hpp", "all.a[i] < border ? left : other", "all.a[i] <= border ? left : other",
        lives("wib"),
    ),
    "leaves never split": Bug(
        "wib.hpp", "if (splits) split(at, place);", "", rising
    ),
    "one more expires than should": Bug(
        "hash.hpp", "- u32(sequence)) < 0", "- u32(sequence)) <= 0", sliding
    ),
    "growing starts afresh": Bug(
        "hash.hpp",
        "i < all.size(); i++) append",
        "i < 0; i++) append",
        test_hash.test_it_grows_while_it_wraps,
    ),
}  # fmt: skip


def use(monkeypatch: pytest.MonkeyPatch, folder: Path, changes: dict[str, tuple[str, str]]) -> None:
    """Compile the headers with changes, and let structures come from there."""
    copy = folder / "native"
    shutil.copytree(NATIVE, copy, ignore=shutil.ignore_patterns("join.cpp"))
    for name, (right, wrong) in changes.items():
        text = (copy / name).read_text()
        assert text.count(right) == 1, f"{name} has changed: {right}"
        (copy / name).write_text(text.replace(right, wrong))
    source = copy / "alone.cpp"
    source.write_text('#include "alone.hpp"\n')
    library = folder / "library.so"
    subprocess.run(["g++", *FLAGS, source, "-o", library, "-lpthread"], check=True)
    functions = structure.declared(ctypes.CDLL(str(library)))
    monkeypatch.setattr(structure, "_functions", lambda: functions)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_noticed(name, tmp_path, monkeypatch):
    bug = BUGS[name]
    bug.check()
    use(monkeypatch, tmp_path, {bug.file: (bug.right, bug.wrong)})
    with pytest.raises(AssertionError):
        bug.check()


def test_numbers_of_tuples_in_a_hash_ring_may_wrap(tmp_path, monkeypatch):
    """2^32 tuples take too long, so counting begins shortly before."""
    late = "begin_ = end_ = (u64(1) << 32) - 500, swept_ = 1;"
    use(monkeypatch, tmp_path, {"hash.hpp": ("begin_ = end_ = swept_ = 1;", late)})
    one = Checked(Structure("hash", capacity=64))
    random = np.random.default_rng(1)
    for _ in range(200):
        one.insert(random.integers(0, 1000, 10, dtype=np.uint32))
        one.expire(max(0, len(one.low) - one.first - 40))
        one.check(random.integers(0, 1000, 50, dtype=np.uint32))
