"""Run a bench module against a component, from pytest or anything else."""

import json
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from sim.benches.build import build
from sim.benches.ports import describe

__all__ = ["BenchFailed", "Failure", "run_bench"]


@dataclass(frozen=True)
class Failure:
    """One cocotb test that failed: its name, the exception's class and what it said."""

    test: str
    kind: str
    message: str


class BenchFailed(AssertionError):
    """At least one cocotb test of a bench failed.

    Attributes
    ----------
    failures : list of Failure
        Empty if the simulator died before any test could.
    """

    def __init__(self, headline, failures, log):
        self.failures = failures
        lines = [f"{one.test}: {one.kind}: {one.message}" for one in failures]
        # Without a failure the simulator died, and only its log can say why.
        super().__init__("\n".join([headline, *(lines or [log[-6000:]])]))


def run_bench(component, *, bench, name, seed=1, parameters=None, max_failures=None):
    """Compile ``component`` and run all cocotb tests of a module against it.

    Parameters
    ----------
    component : wiring.Component
        The block.
    bench : str
        The module with the cocotb tests, for instance ``sim.benches.fifo``.
    name : str
        What the block is called in Verilog.
    seed : int
        Seed of everything random in the bench.
    parameters : dict
        What the bench has to know about the block; it arrives there as
        ``sim.benches.environment.parameters()``.
    max_failures : int
        Stop after so many tests have failed.

    Returns
    -------
    int
        Number of cocotb tests that ran.

    Raises
    ------
    BenchFailed
        If one of them fails, with the assertion in the message.
    """
    from cocotb_tools.runner import get_runner

    __tracebackhide__ = True  # pytest shows the caller and the message
    ports = describe(component)
    executables = build(component, name)
    setup = json.dumps({"parameters": parameters or {}, "ports": ports})
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as folder:
        results = Path(folder) / "results.xml"
        log = Path(folder) / "log"
        # Under pytest the runner exits when a test fails, otherwise it does not.
        with suppress(SystemExit):
            get_runner("verilator").test(
                test_module=bench,
                hdl_toplevel=name,
                hdl_toplevel_lang="verilog",
                seed=seed,
                build_dir=executables,
                test_dir=folder,
                results_xml=str(results),
                log_file=log,
                extra_env={
                    "EDDYLINE_BENCH": setup,
                    "COCOTB_ANSI_OUTPUT": "0",
                    "COCOTB_MAX_FAILURES": str(max_failures or 0),
                },
            )
        cases = list(ElementTree.parse(results).iter("testcase")) if results.exists() else []
        said = log.read_text(errors="replace")
    failures = [
        Failure(case.get("name"), tag.get("type") or "", tag.get("message") or "")
        for case in cases
        for tag in (*case.iter("failure"), *case.iter("error"))
        if tag.get("type") != "RegressionTerminated"  # not run, because of max_failures
    ]
    if failures or not cases:
        headline = f"{bench} on {name}, seed {seed}: {len(failures)} of {len(cases)} tests failed"
        raise BenchFailed(headline, failures, said)
    return len(cases)
