# amaranth: UnusedElaboratable=no
"""Waveforms, with nothing but a C++ compiler on the machine."""

import ctypes
import random
import re
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

import eddyline_sim
from eddyline.errors import MachineError
from eddyline_sim.simulation import Simulation
from tests.sim.operators import Adder

HIERARCHY, HEADER = 6, 0


def expand(block):
    """Undo LZ4, as its block format is specified."""
    out, at = bytearray(), 0

    def length(start):
        nonlocal at
        if start == 15:
            while True:
                start += block[at]
                at += 1
                if block[at - 1] != 255:
                    break
        return start

    while True:
        token = block[at]
        at += 1
        literals = length(token >> 4)
        out += block[at : at + literals]
        at += literals
        if at == len(block):
            return bytes(out)
        distance = int.from_bytes(block[at : at + 2], "little")
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])


def blocks(path):
    """Return the blocks of an FST file by type."""
    data, at, found = path.read_bytes(), 0, {}
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 9], "big")
        found[data[at]] = data[at + 9 : at + 1 + size]
        at += 1 + size
    return found


def run(trace):
    with Simulation(Adder(stages=2), name="adder-2", trace=trace) as simulation:
        rows = np.zeros((50, 2), np.uint32)
        rows[:, 0] = np.arange(50)
        rows[-1, 1] = 1 << 8
        simulation.stall(100, seed=1)
        return simulation.run(rows, until_star=True).tolist(), simulation.cycles


def test_fst_has_the_names_of_the_design(tmp_path):
    _, cycles = run(tmp_path / "out.fst")
    found = blocks(tmp_path / "out.fst")
    begin, end = (int.from_bytes(found[HEADER][at : at + 8], "big") for at in (0, 8))
    assert begin == 0
    assert end >= cycles * 10_000  # picoseconds, at 100 MHz
    names = expand(found[HIERARCHY][8:])
    assert len(names) == int.from_bytes(found[HIERARCHY][:8], "big")
    for name in (b"adder_2\0", b"stage_0\0", b"stage_1\0", b"o__valid\0", b"offset [15:0]\0"):
        assert name in names
    assert b"_000_" not in names


def test_vcd_shows_the_clock(tmp_path):
    _, cycles = run(str(tmp_path / "out.vcd"))
    text = (tmp_path / "out.vcd").read_text()
    assert re.search(r"\$scope module stage_1 \$end", text)
    code = re.search(r"\$var wire\s+1 (\S+) clk \$end", text)[1]
    assert len(re.findall(rf"^1{re.escape(code)}$", text, re.M)) >= cycles


def test_waveforms_change_nothing(tmp_path):
    # The design is simplified only where nobody looks inside.
    assert run(tmp_path / "out.fst") == run(None)


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"end in .fst or .vcd, not 'out.png'"):
        Simulation(Adder(stages=2), name="adder-2", trace="out.png")


def test_a_file_that_cannot_be_written(tmp_path):
    path = tmp_path / "missing" / "out.fst"
    with pytest.raises(MachineError, match="cannot write waveforms to .*out.fst: No such file"):
        Simulation(Adder(stages=2), name="adder-2", trace=path)


def test_compression_can_be_undone(tmp_path):
    (tmp_path / "both.cpp").write_text("""
        #include "lz4.h"
        #include "zlib.h"
        extern "C" int lz4(const char* from, char* to, int size) {
            return LZ4_compress_default(from, to, size, LZ4_compressBound(size));
        }
        extern "C" int deflate(const unsigned char* from, unsigned char* to, int size) {
            unsigned long written = compressBound(size);
            return compress2(to, &written, from, size, 9) == Z_OK ? int(written) : -1;
        }
    """)
    library = tmp_path / "both.so"
    include = Path(eddyline_sim.__path__[0]) / "fst"
    subprocess.run(
        ["g++", "-shared", "-fPIC", f"-I{include}", tmp_path / "both.cpp", "-o", library],
        check=True,
    )
    functions = ctypes.CDLL(str(library))
    rng = random.Random(1)
    for size in (*range(1, 40), 300, 1000, 66_000, 140_000):
        for symbols in (1, 2, 256):
            source = rng.choices(range(symbols), k=size) if symbols > 1 else [0] * size
            source = bytes(source)
            target = ctypes.create_string_buffer(2 * size + 64)
            written = functions.lz4(source, target, size)
            assert expand(target.raw[:written]) == source
            written = functions.deflate(source, target, size)
            assert zlib.decompress(target.raw[:written]) == source
