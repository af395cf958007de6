"""C++ to a shared library for this machine, compiled at the first use and kept."""

import functools
import logging
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from eddyline.build.cache import cached, digest
from eddyline.errors import MachineError

__all__ = ["compiled", "compiler"]

logger = logging.getLogger(__name__)

FLAGS = [
    "-std=c++20", "-O3", "-march=native", "-fPIC", "-shared", "-fvisibility=hidden",
]  # fmt: skip


def compiler() -> str | None:
    """Return where the C++ compiler is, or None if there is none."""
    return shutil.which("g++")


def compiled(source: Path, *, name: str, progress: Callable[[str], None] | None = None) -> Path:
    """Return the library made of a C++ file and the headers beside it.

    Raises
    ------
    MachineError
        If there is no compiler, or it gives up.
    """
    command = compiler()
    if command is None:
        raise MachineError("no C++ compiler: install g++")
    files = [source, *sorted(source.parent.glob("*.hpp"))]
    texts = [f"{path.name}\n{path.read_text()}" for path in files]
    key = digest(*texts, repr(FLAGS), _compiler(command), _processor())

    def build(directory: Path) -> None:
        if progress:
            progress(f"compiling {name}, once")
        logger.info("compiling %s", name)
        call = [command, *FLAGS, str(source), "-o", str(directory / "library.so"), "-lpthread"]
        done = subprocess.run(call, capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line][:5]
            raise MachineError(f"{name} did not compile:\n" + "\n".join(said or [done.stderr]))

    return cached(key, build, kind="native") / "library.so"


@functools.cache
def _compiler(path: str) -> str:
    return subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True).stdout


@functools.cache
def _processor() -> str:
    """Return what code for this machine may use; a cache may be shared by several."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
