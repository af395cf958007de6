"""Flip-flops behind block memories: which are moved into them, and which are not."""

import copy

import pytest
from amaranth.lib.data import StructLayout

from eddyline_hw.window.banks import Banks
from eddyline_sim.output_registers import use_output_registers
from eddyline_sim.synthesis import synthesize

CLOCK, DATA, Q, OTHER = [2], [10], [20], [30]


def flip_flop(data, q, **changes):
    parameters = {"CEMUX": "1 ", "CLKMUX": "CLK", "LSRMUX": "LSR", "REGSET": "RESET"}
    wires = {"CLK": CLOCK, "DI": data, "LSR": ["0"], "Q": q}
    for name, value in changes.items():
        (wires if name in wires else parameters)[name] = value
    directions = {port: "output" if port == "Q" else "input" for port in wires}
    return {
        "type": "TRELLIS_FF",
        "parameters": parameters,
        "connections": wires,
        "port_directions": directions,
    }


def netlist(*cells, width=36, ports=()):
    """Return a memory with one bit of output, and ``cells``."""
    wires = {"CLKA": CLOCK, "CLKB": CLOCK, "OCEA": ["0"], "OCEB": ["1"], "DOA0": DATA, "DOB0": [11]}
    memory = {
        "type": "DP16KD",
        "parameters": {
            "DATA_WIDTH_B": f"{width:032b}",
            "REGMODE_A": "NOREG",
            "REGMODE_B": "NOREG",
            "CLKAMUX": "CLKA",
            "CLKBMUX": "CLKB",
        },
        "connections": wires,
        "port_directions": {p: "output" if p.startswith("DO") else "input" for p in wires},
    }
    named = {f"cell{number}": cell for number, cell in enumerate(cells)}
    outside = {f"port{number}": {"bits": bits} for number, bits in enumerate(ports)}
    return {"modules": {"top": {"ports": outside, "cells": {"memory": memory, **named}}}}


def test_a_register_that_only_follows_is_moved():
    design = netlist(flip_flop(DATA, Q))
    assert use_output_registers(design) == 1
    (memory,) = design["modules"]["top"]["cells"].values()
    assert memory["connections"]["DOA0"] == Q
    assert {memory["parameters"][f"REGMODE_{port}"] for port in "AB"} == {"OUTREG"}


@pytest.mark.parametrize(
    "design",
    [
        netlist(flip_flop(DATA, Q, CEMUX="CE")),
        netlist(flip_flop(DATA, Q, CLKMUX="INV")),
        netlist(flip_flop(DATA, Q, CLK=OTHER)),
        netlist(flip_flop(DATA, Q, LSR=OTHER)),
        netlist(flip_flop(DATA, Q, REGSET="SET")),
        netlist(flip_flop(DATA, Q), flip_flop(DATA, OTHER)),
        netlist(flip_flop(OTHER, Q, LSR=DATA)),
        netlist(flip_flop(DATA, Q), ports=[DATA]),
        netlist(flip_flop(DATA, Q), flip_flop([11], OTHER, CEMUX="CE")),
        netlist(flip_flop(DATA, Q), width=18),  # port A is not read
        netlist(),
    ],
)
def test_any_other_stays(design):
    before = copy.deepcopy(design)
    assert use_output_registers(design) == 0
    assert design == before


def test_a_bank_has_its_output_register_inside(tmp_path, monkeypatch):
    """No flip-flop is left of 36 bits of data, and its clock is not that of a bare memory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bank = Banks(StructLayout({"word": 36}), depth=512, memory="bram")
    report = synthesize(bank, name="bank", seeds=(1,))
    assert report.block_ram == 1
    assert report.flip_flops == report.wrapper_flip_flops
    # 5.7 ns from clock edge to output would be 175 MHz, without any wire.
    assert report.fmax["sync"] > 200
