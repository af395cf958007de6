"""Place gateware on an ECP5 and say how fast it is, how large, and why not faster.

``python -m eddyline_sim.synthesis`` takes its designs through Yosys and nextpnr, prints for each a
table and the critical path, and writes the same as JSON. Native tools on PATH are used before the
ones of the Python packages. Results are kept in the user's cache directory under a hash of design,
tools and options, so only what has changed is run again.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from eddyline.errors import EddylineError, MachineError
from eddyline.plan import All, Compare, Layout, Order, Plan, Window, Word
from eddyline_hw.handshake.operator import CHAINS, HandshakeJoin
from eddyline_hw.predicate import PredicatePipeline
from eddyline_hw.splitjoin.operator import SplitJoin
from eddyline_hw.top.pins import FewPins

from .output_registers import use_output_registers
from .placement import RESOURCES, Placement, Report

__all__ = ["DESIGNS", "SynthesisError", "synthesize", "synthesize_design"]

# Banks and relays stay whole until the end: registers that are copied for their fan-out sit in
# different ones, and equal ones in one module would be merged. Whole cores would be no better:
# logic could not be shared with the queues between them. Enables and resets of less than eight
# flip-flops become logic: each would bind a slice, and tear apart what belongs together. Of the two
# mappers the older one is taken: `abc9` looks at carry chains, too, and gives logic as many levels
# as would fit beside the longest chain.
WHOLE = "*.bank? *.bank?? *.relay_*"
MAPPING = "abc -lut 4:7 -dress"
SCRIPT = (
    f"read_rtlil design.il; setattr -mod -set keep_hierarchy 1 {WHOLE}; "
    "synth_ecp5 -top top -run begin:map_ffs; dfflegalize -mince 8 -minsrst 8 "
    "-cell $_DFF_?_ 01 -cell $_DFF_?P?_ r -cell $_SDFF_?P?_ r "
    "-cell $_DFFE_??_ 01 -cell $_DFFE_?P??_ r -cell $_SDFFE_?P??_ r; "
    f"synth_ecp5 -top top -run map_ffs:map_luts; {MAPPING}; clean; "
    f"synth_ecp5 -top top -run map_cells:; setattr -mod -unset keep_hierarchy {WHOLE}; "
    "flatten; opt_clean; write_json netlist.json; tee -q -o cells.json stat -json"
)
# The usual mapping makes all paths as long as the longest, if that saves a lookup table. This one
# makes each as short as it can, and counts six inputs as one level: four lookup tables of a slice
# pair, with nothing but multiplexers between them.
SHALLOW = """\
strash
&get -n; &fraig -x; &put
scorr; dc2; dretime; strash; dch -f
if -K 6 -C 32 -p -F 0 -A 0
"""
DEVICES = {
    f"{option}{size}k": f"LFE5{family}-{size}F"
    for option, family, sizes in (
        ("", "U", (12, 25, 45, 85)),
        ("um-", "UM", (25, 45, 85)),
        ("um5g-", "UM5G", (25, 45, 85)),
    )
    for size in sizes
}
SECONDS = 5  # between lines of progress
Progress = Callable[[str], None]


class SynthesisError(EddylineError):
    """A design does not fit the device, or a tool gave up on it."""


def synthesize(
    component: wiring.Component,
    *,
    name: str,
    device: str = "85k",
    package: str = "CABGA381",
    speed: int = 6,
    seeds: Iterable[int] = (1,),
    target_mhz: float = 200.0,
    shallow: bool = False,
    timing_weight: int | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
) -> Report:
    """Take a component through synthesis, placement and routing.

    Parameters
    ----------
    component : :class:`wiring.Component`
        Wrapped into :class:`FewPins`, unless it already is one.
    name : str
        What the report calls it.
    device, package, speed : str, str, int
        As nextpnr-ecp5 calls them; the ULX3S's part if left out.
    seeds : iterable of int
        One placement each. Seeds differ by 5 to 13 percent: compare medians of several.
    target_mhz : float
        What placement and routing strive for in every domain; not reaching it is no error.
    shallow : bool
        Give every path as few levels of logic as it can have, at the cost of more of it.
    timing_weight : int, optional
        How much placement weighs time against the length of wires; nextpnr's own 10 if left out.
    progress : callable, optional
        Gets a line of text whenever a tool begins something else.
    jobs : int
        How many seeds are placed at the same time.
    """
    seeds = tuple(seeds)
    if not seeds:
        raise ValueError("synthesis needs at least one seed")
    if device not in DEVICES:
        raise ValueError(f"no device called {device!r} (known: {', '.join(DEVICES)})")
    yosys, nextpnr = _tool("yosys"), _tool("nextpnr-ecp5")
    tools = (_version(yosys), _version(nextpnr))
    say = progress or (lambda text: None)
    top = component if isinstance(component, FewPins) else FewPins(component)
    # Without source locations: the hash is one of the design, not of the files it is written in.
    design = rtlil.convert(top, name="top", emit_src=False)
    script, inputs = SCRIPT, {"design.il": design}
    if shallow:
        script = script.replace(MAPPING, "abc -lut 4:7 -script shallow.abc -dress")
        inputs["shallow.abc"] = SHALLOW
    store = _cache() / _digest(design, tools[0], script, *([SHALLOW] if shallow else []))
    if not (store / "netlist.json").exists():
        _run(
            [yosys, "-p", script],
            inputs=inputs,
            # The netlist last: where it is, both are.
            keep={"cells.json": store / "cells.json", "netlist.json": store / "netlist.json"},
            label=f"{name}: yosys",
            say=say,
        )
    mapped = json.loads((store / "netlist.json").read_text())
    use_output_registers(mapped)
    netlist = json.dumps(mapped)
    options = [f"--{device}", "--package", package, "--speed", str(speed)]
    options += ["--freq", f"{target_mhz:g}", "--timing-allow-fail", "--lpf-allow-unconstrained"]

    if timing_weight is not None:
        options += ["--placer-heap-timingweight", str(timing_weight)]

    def place(seed):
        found = store / f"{_digest(tools[1], netlist, *options, seed)}.json"
        if not found.exists():
            files = ["--json", "netlist.json", "--report", "report.json"]
            _run(
                [nextpnr, *options, *files, "--seed", str(seed)],
                inputs={"netlist.json": netlist},
                keep={"report.json": found},
                label=f"{name}: seed {seed}",
                say=say,
            )
        return json.loads(found.read_text())

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(place, seeds))
    cells = json.loads((store / "cells.json").read_text())["design"]["num_cells_by_type"]
    used = {
        label: results[0]["utilization"].get(cell, {"used": 0})["used"]
        for label, cell in RESOURCES.items()
    }
    return Report(
        name=name,
        device=f"{DEVICES[device]}-{speed} {package}",
        tools=tools,
        target_mhz=float(target_mhz),
        lut4=cells.get("LUT4", 0),
        wrapper_flip_flops=top.flip_flops,
        placements=tuple(
            Placement.from_nextpnr(seed, result)
            for seed, result in zip(seeds, results, strict=True)
        ),
        **used,
    )


@cache
def _tool(name: str) -> str:
    """Find a native tool, or the one that came with the Python packages."""
    beside = str(Path(sys.executable).parent)
    found = (
        shutil.which(name)
        or shutil.which(f"yowasp-{name}", path=beside)
        or shutil.which(f"yowasp-{name}")
    )
    if not found:
        raise MachineError(
            f"no {name} on PATH, nor yowasp-{name} (try: pip install 'eddyline[hw]')"
        )
    return found


@cache
def _version(tool: str) -> str:
    shown = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    lines = (shown.stdout + shown.stderr).splitlines()
    return next((line for line in lines if re.search(r"\d\.\d", line)), Path(tool).name)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "eddyline" / "synth"


def _run(command, *, inputs, keep, label, say) -> None:
    """Run a tool in a directory of its own, and keep what it has made."""
    said = []
    say(f"{label}: begins")
    with tempfile.TemporaryDirectory(prefix="eddyline-synth-") as scratch:
        for file, content in inputs.items():
            (Path(scratch) / file).write_text(content)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, cwd=scratch, **pipes) as process:
            try:
                for line in process.stdout:
                    said.append(line.rstrip())
                    if phase := _phase(line):
                        say(f"{label}: {phase}")
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise _failure(label, said)
        try:
            for file, kept in keep.items():
                kept.parent.mkdir(parents=True, exist_ok=True)
                # A reader sees the whole file or none, whoever else is writing it.
                half = kept.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
                shutil.copyfile(Path(scratch) / file, half)
                half.replace(kept)
        except OSError as error:
            raise MachineError(f"cannot keep results: {error}") from error


def _phase(line: str) -> str | None:
    """Say what a tool is doing, if a line of its log tells."""
    if found := re.match(r"\d+(?:\.\d+)?\. Executing (.*?)(?: pass.*)?\.$", line):
        return found[1]
    if found := re.match(r"Info: ([A-Z].*?)\.\.+$", line):
        return found[1].lower()
    if found := re.match(r"Info: +at iteration #(\d+)", line):
        return f"placing, iteration {found[1]}"
    if found := re.match(r"Info: +(\d+) \|.*\| +(\d+)\|", line):
        return f"routing, {found[2]} wires to go"
    return None


def _failure(label: str, said: Sequence[str]) -> SynthesisError:
    """Say in a line why a tool gave up: too large, or its own words."""
    for line in said:
        used = re.search(r"(\w+):\s+(\d+)/\s*(\d+)\s+\d+%", line)
        if used and int(used[2]) > int(used[3]):
            return SynthesisError(
                f"{label}: does not fit: {used[2]} {used[1]} where the device has {used[3]}"
            )
    errors = [line for line in said if line.startswith("ERROR")] or said[-3:]
    return SynthesisError(f"{label}: gave up: " + "; ".join(errors))


def _band(stages: int) -> PredicatePipeline:
    """Return ``r.w0 <= s.w0 <= r.w1`` on words of 32 bits."""
    words = [Word(f"w{number}", 32, False, f"w{number}") for number in range(2)]
    band = All((Compare(0, "le", 0), Compare(1, "ge", 0)))
    return PredicatePipeline(band, Layout(tuple(words), ()), Layout((words[0],), ()), stages=stages)


def _plan(window: int) -> Plan:
    """Return a join on a band of 32-bit words, with 32-bit ids."""
    words = [Word(f"w{number}", 32, False, f"w{number}") for number in range(2)]
    band = All((Compare(0, "le", 0), Compare(1, "ge", 0)))
    rows = Window("rows", window)
    sides = (Layout(tuple(words), ()), Layout((words[0],), ()))
    return Plan(*sides, band, rows, rows, Order("none"), False)


def _handshake(chain: str) -> FewPins:
    """Return four cores with windows of 64 tuples."""
    join = HandshakeJoin(_plan(64), chain=chain, cores=4, window_r=64, window_s=64)
    return FewPins(join, domains={"o": join.output_domain})


def _splitjoin(cores: int, memory: str) -> FewPins:
    """Return cores with 16 tuples of each side in LUTRAM, or 512 in block RAM."""
    window = cores * {"lutram": 16, "bram": 512}[memory]
    return FewPins(
        SplitJoin(_plan(window), cores=cores, window_r=window, window_s=window, memory=memory)
    )


DESIGNS: dict[str, Callable[[], wiring.Component]] = {
    **{f"band-32-stages-{stages}": partial(_band, stages) for stages in (1, 2, 3)},
    **{f"handshake-{chain}-4": partial(_handshake, chain) for chain in CHAINS},
    **{
        f"splitjoin-{memory}-{cores}": partial(_splitjoin, cores, memory)
        for cores in (4, 8)
        for memory in ("lutram", "bram")
    },
}


# With the usual weight, eight cores of SplitJoin with windows in LUTRAM were not routed in ten
# minutes of processor time; with three times as much they were in five. Mapped for area, one and
# the same design with eight cores and block RAM had 171 MHz; mapped for depth, 184.
EFFORT = {
    name: {"shallow": True, "timing_weight": 30} for name in DESIGNS if name.startswith("splitjoin")
}


# Clocks in MHz that these designs promise: the median of the default seeds, on the default device.
PROMISED = {
    "handshake-lockstep-4": 150,
    "handshake-asynchronous-4": 170,
    **{name: 180 for name in DESIGNS if name.startswith("splitjoin")},
}


def synthesize_design(name: str, **settings) -> Report:
    """Take one of ``DESIGNS`` through, as :func:`synthesize` does with any component."""
    return synthesize(DESIGNS[name](), name=name, **EFFORT.get(name, {}), **settings)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m eddyline_sim.synthesis", description=__doc__)
    parser.add_argument("designs", nargs="*", metavar="design", help="left out: all of them")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--target-mhz", type=float, default=200.0)
    parser.add_argument("--jobs", type=int, default=2, help="seeds placed at the same time")
    parser.add_argument("--out", type=Path, default=Path("build/synth"), help="directory of JSON")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.designs) - DESIGNS.keys()):
        parser.error(f"no design called {unknown[0]!r} (known: {', '.join(sorted(DESIGNS))})")
    began = shown = time.monotonic()

    def say(text):
        nonlocal shown
        now = time.monotonic()
        if text.endswith("begins") or now - shown >= SECONDS:
            sys.stderr.write(f"{now - began:6.0f} s  {text}\n")
            shown = now

    options.out.mkdir(parents=True, exist_ok=True)
    slow = 0
    for name in options.designs or DESIGNS:
        settings = {"seeds": options.seeds, "target_mhz": options.target_mhz, "jobs": options.jobs}
        try:
            report = synthesize_design(name, progress=say, **settings)
        except EddylineError as error:
            sys.stderr.write(f"error: {error}\n")
            return error.exit_code
        (options.out / f"{name}.json").write_text(report.to_json())
        sys.stdout.write(report.text())
        if (clock := report.fmax["sync"]) < PROMISED.get(name, 0):
            sys.stderr.write(f"error: {name}: {clock} MHz, where {PROMISED[name]} are promised\n")
            slow += 1
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
