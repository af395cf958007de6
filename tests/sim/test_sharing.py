"""Equal instances become one module, and one piece of code where that pays."""

import re

import numpy as np
import pytest
from amaranth.hdl import Module, Print, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline.build.cache import cache_directory
from eddyline_sim import dedupe
from eddyline_sim.dedupe import common_clocks, repeated
from eddyline_sim.shell import Shell
from eddyline_sim.simulation import Simulation
from tests.sim.operators import ROW, Adder, Crossing


def modules(component):
    text, _ = Shell(component).rtlil("design")
    return text, re.findall(r"^module \\(\S+)$", text, re.M)


def test_32_equal_instances_are_one_module():
    text, names = modules(Adder(stages=32))
    stages = [name for name in names if name.startswith("stage_")]
    assert len(stages) == 1
    cells = re.findall(rf"^  cell \\{stages[0]} \\(\S+)$", text, re.M)
    assert cells == [f"stage_{number}" for number in range(32)]


def test_the_number_of_modules_does_not_depend_on_the_number_of_instances():
    assert len(modules(Adder(stages=2))[1]) == len(modules(Adder(stages=9))[1])


def test_conversion_is_deterministic():
    assert modules(Crossing())[0] == modules(Crossing())[0]


class Pair(wiring.Component):
    """Two submodules that differ in one detail, or not."""

    i: In(stream.Signature(8))
    o: Out(stream.Signature(8))

    def __init__(self, first, second):
        self.details = (first, second)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        values = [Signal(8, name=f"value_{n}") for n in range(2)]
        for n, (detail, value) in enumerate(zip(self.details, values, strict=True)):
            m.submodules[f"inner_{n}"] = inner = Inner(detail)
            m.d.comb += [inner.i.eq(self.i.payload), value.eq(inner.o)]
        m.d.comb += [
            self.i.ready.eq(self.o.ready),
            self.o.valid.eq(self.i.valid),
            self.o.payload.eq(values[0] ^ values[1]),
        ]
        return m


class Inner(wiring.Component):
    i: In(8)
    o: Out(8)

    def __init__(self, detail):
        self.detail = detail
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        state = Signal(8, init=self.detail == "init", reset_less=self.detail == "reset_less")
        a, b = Signal(8, name="a"), Signal(8, name="a")
        m.d.comb += [a.eq(self.i + 1), b.eq(self.i + 2)]
        m.d.sync += state.eq(b if self.detail == "signal" else a)
        m.d.comb += self.o.eq(state[1:] if self.detail == "slice" else state)
        if self.detail == "operator":
            m.d.comb += self.o.eq(state ^ a)
        if self.detail == "print":
            m.d.sync += Print("state", state)
        return m


@pytest.mark.parametrize("detail", ["init", "reset_less", "signal", "slice", "operator", "print"])
def test_modules_that_differ_are_not_shared(detail):
    assert len(modules(Pair(detail, None))[1]) == len(modules(Pair(None, None))[1]) + 1


def test_what_cannot_be_fingerprinted_is_shared_all_the_same():
    assert len(modules(Pair("print", "print"))[1]) == len(modules(Pair(None, None))[1])


class Halves(wiring.Component):
    """Two submodules that drive one half of a signal each, which neither can have as a port."""

    i: In(stream.Signature(8))
    o: Out(stream.Signature(8))

    def elaborate(self, platform):
        m = Module()
        for n in range(2):
            half = Module()
            half.d.sync += self.o.payload.word_select(n, 4).eq(self.i.payload.word_select(1 - n, 4))
            m.submodules[f"half_{n}"] = half
        m.d.comb += self.i.ready.eq(1)
        m.d.sync += self.o.valid.eq(self.i.valid)
        return m


def test_a_signal_driven_by_two_modules_keeps_them_apart():
    _, names = modules(Halves())
    assert sum("half" in name for name in names) == 2


def test_shared_code_gives_the_same_results_in_the_same_cycles(monkeypatch):
    values = np.arange(400, dtype=np.uint64)
    values[-1] |= np.uint64(1 << ROW["star"].offset)
    results = []
    for least in (dedupe.ENOUGH, 1000):
        monkeypatch.setattr(dedupe, "ENOUGH", least)
        monkeypatch.setattr(dedupe, "LEAST", least)
        with Simulation(Adder(stages=12), name="shared") as simulation:
            assert bool(repeated(Shell(Adder(stages=12)).rtlil("shared")[0])) == (least == 1000)
            simulation.stall(90, seed=1)
            out = simulation.run(values.view(np.uint32).reshape(-1, 2), until_star=True)
            results.append((simulation.cycles, out.tolist()))
    assert results[0] == results[1]
    assert len(results[0][1]) == 400
    assert any("edge top.clk" in path.read_text() for path in cache_directory().glob("*/design.v"))


def test_clocks_are_taken_from_the_top():
    verilog = """\
module inner(clk, rst, other);
  input clk;
  input rst;
  always @(posedge clk, posedge rst)
    if (rst) a <= 0;
  always @(posedge other_clk)
    b <= clk;
endmodule

module top(clk, next_rst);
  input clk;
  always @(posedge clk)
    held <= next_rst;
  inner design (
    .clk(clk),
    .rst(\\rst$1 )
  );
endmodule
"""
    changed = common_clocks(verilog, ["clk", "rst"])
    assert changed == verilog.replace(
        "@(posedge clk, posedge rst)", "@(posedge top.clk, posedge top.\\rst$1 )"
    )
