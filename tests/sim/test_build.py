"""The cache of compiled simulators, what is said while one is built, and what may go wrong."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.build.cache import cache_directory, cached, digest
from eddyline.errors import MachineError
from eddyline_sim import build
from eddyline_sim.build import build_simulator
from eddyline_sim.shell import Shell
from eddyline_sim.simulation import Simulation
from tests.sim.operators import Widener


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "eddyline" / "sim"


def fill(directory):
    (directory / "result").write_text("whole")


def never(directory):
    raise AssertionError("built twice")


def test_what_is_cached_is_not_built_again(empty_cache):
    assert cached("key", fill) == empty_cache / "key"
    assert (cached("key", never) / "result").read_text() == "whole"


def test_a_failed_build_leaves_nothing(empty_cache):
    def fail(directory):
        fill(directory)
        raise MachineError("no compiler")

    with pytest.raises(MachineError, match="no compiler"):
        cached("key", fail)
    assert [path.name for path in empty_cache.iterdir()] == ["key.lock"]
    assert cached("key", fill).is_dir()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EDQUOT])
def test_a_full_or_closed_disk_is_named(empty_cache, number):
    def fail(directory):
        raise OSError(number, os.strerror(number))

    with pytest.raises(MachineError, match=f"{os.strerror(number)}; XDG_CACHE_HOME") as info:
        cached("key", fail)
    assert str(empty_cache) in str(info.value)


def test_a_cache_directory_that_cannot_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(MachineError, match="Not a directory; XDG_CACHE_HOME chooses another"):
        cached("key", fill)


# Builds into the cache, says that it has begun, and goes on when told to (or is killed).
BUILDER = """
import sys
from eddyline.build.cache import cached
def build(directory):
    (directory / "result").write_text(sys.argv[1])
    print("building", flush=True)
    sys.stdin.readline()
print((cached("key", build) / "result").read_text(), flush=True)
"""


def start(word):
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, word],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_build_the_same_thing_once(empty_cache):
    with start("first") as first:
        assert first.stdout.readline() == "building\n"
        with start("second") as second:
            second.stdin.write("\n")
            second.stdin.flush()
            first.communicate("\n", timeout=60)
            assert second.communicate(timeout=60)[0] == "first\n"


def test_a_killed_builder_does_not_block_the_next(empty_cache):
    with start("first") as first:
        assert first.stdout.readline() == "building\n"
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert list(empty_cache.glob("key.tmp-*"))
        assert (cached("key", fill) / "result").read_text() == "whole"
        assert not list(empty_cache.glob("key.tmp-*"))


def test_parts_of_a_digest_cannot_run_into_each_other():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") == digest(b"ab")


@pytest.fixture(scope="module")
def widener():
    """Return RTLIL of a small design, after compiling it once."""
    Simulation(Widener(), name="widener").close()
    return Shell(Widener()).rtlil("widener")[0]


def test_a_compiled_design_is_ready_without_a_word(widener):
    said = []
    with Simulation(Widener(), name="widener", progress=said.append):
        assert said == []


def test_a_failing_compiler_is_quoted_and_its_log_kept(widener):
    said = []
    with pytest.raises(MachineError, match="did not compile .g\\+\\+ gave 1") as info:
        build_simulator(
            widener, "#error no such port", name="bad", trace=None, progress=said.append
        )
    message = str(info.value)
    assert "error: #error no such port" in message
    log = Path(message.rpartition("the whole log is ")[2])
    assert log.parent == cache_directory()
    assert "g++ -c" in log.read_text()
    log.unlink()
    assert said[0] == "compiling simulator bad: verilog"
    assert "compiling simulator bad: verilator" in said


def test_a_missing_compiler_is_named(empty_cache, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineError, match=r"needs a C\+\+ compiler: install g\+\+"):
        Simulation(Widener(), name="widener")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(build, "PACKAGES", ("verilator", "yowasp-nothing"))
    with pytest.raises(MachineError, match=r"package yowasp-nothing: install eddyline\[hw\]"):
        Simulation(Widener(), name="widener")


def test_a_broken_verilator_is_named(empty_cache, monkeypatch, tmp_path):
    (tmp_path / "verilator").mkdir()
    (tmp_path / "verilator" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "verilator", raising=False)
    with pytest.raises(MachineError, match="has no bin/verilator_bin: reinstall"):
        Simulation(Widener(), name="widener")
