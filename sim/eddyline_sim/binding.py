"""Between Python and ``harness.cpp``: what the harness is told, and what it can be asked."""

import ctypes
from pathlib import Path

from eddyline_sim.shell import Shell

__all__ = ["header", "load"]


def header(shell: Shell, has_merge: bool) -> str:
    """Return ``design.h``, what the harness must know about one design."""

    def table(ports: dict, statement: str) -> str:
        return "".join(
            f"        case {number}: {statement.format(number)}\n" for number in range(len(ports))
        )

    def star(position: int | None) -> int:
        return -1 if position is None else position

    always = shell.component.signature.members["o"].signature.always_ready
    return f"""\
#include <cstdint>
constexpr unsigned I_BITS = {shell.i_width}, O_BITS = {shell.o_width};
constexpr int I_STAR = {star(shell.i_star)}, O_STAR = {star(shell.o_star)};
constexpr bool HAS_MERGE = {int(has_merge)}, O_MERGE = {int(shell.output_domain == "merge")};
constexpr bool O_ALWAYS = {int(always)};
inline void set_port(Vtop& top, unsigned number, uint64_t value) {{
    switch (number) {{
{table(shell.settings, "top.set_{} = value; break;")}    }}
}}
inline uint64_t get_port(Vtop& top, unsigned number) {{
    switch (number) {{
{table(shell.counters, "return top.get_{};")}    }}
    return 0;
}}
"""


def load(path: Path) -> ctypes.CDLL:
    """Return a compiled simulator whose functions know their types."""
    library = ctypes.CDLL(str(path))
    handle, u64, pointer = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
    count = ctypes.POINTER(ctypes.c_uint64)
    for name, result, arguments in (
        ("open", handle, [ctypes.c_double, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]),
        ("close", None, [handle]),
        ("error", ctypes.c_char_p, [handle]),
        ("cycles", u64, [handle]),
        ("owed", ctypes.c_int64, [handle]),
        ("set", None, [handle, ctypes.c_uint, u64]),
        ("get", u64, [handle, ctypes.c_uint]),
        ("idle", None, [handle, ctypes.c_uint, u64]),
        ("stall", None, [handle, ctypes.c_uint, u64]),
        ("reset", ctypes.c_int, [handle]),
        ("begin", None, [handle]),
        ("stamp", None, [handle, pointer, pointer]),
        (
            "run",
            ctypes.c_int,
            [handle, pointer, count, u64, pointer, count, u64, ctypes.c_int, u64, u64, u64],
        ),
    ):
        function = getattr(library, f"eddyline_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
