"""What placement says about a design: clock, size and critical path in the design's own names."""

import json
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

__all__ = ["RESOURCES", "Hop", "Placement", "Report"]

# What the report calls it, and what nextpnr calls it.
RESOURCES = {
    "comb": "TRELLIS_COMB",
    "flip_flops": "TRELLIS_FF",
    "lut_ram": "TRELLIS_RAMW",
    "block_ram": "DP16KD",
}


@dataclass(frozen=True)
class Hop:
    """One step of a critical path: ``kind`` is how nextpnr calls it, ``delay`` is in ns."""

    name: str
    kind: str
    delay: float


@dataclass(frozen=True)
class Placement:
    """What one seed gave: MHz and critical path per clock domain."""

    seed: int
    fmax: dict[str, float]
    critical_path: dict[str, tuple[Hop, ...]]

    @classmethod
    def from_nextpnr(cls, seed: int, result: dict) -> "Placement":
        """Read what ``nextpnr --report`` has written."""
        paths = {}
        for path in result["critical_paths"]:
            if path["from"] == path["to"]:  # within one domain
                paths[_domain(path["from"].split()[-1])] = tuple(_hops(path["path"]))
        fmax = {_domain(net): round(clock["achieved"], 2) for net, clock in result["fmax"].items()}
        return cls(seed, fmax, paths)


@dataclass(frozen=True)
class Report:
    """A design on a device.

    ``lut4`` are the lookup tables that synthesis asked for; ``comb`` are the ones occupied, with
    those that carry chains and LUTRAM take. ``lut_ram`` counts blocks of 16 words of 4 bits,
    ``block_ram`` those of 18 Kbit. ``wrapper_flip_flops`` of the flip-flops belong to the wrapper.
    """

    name: str
    device: str
    tools: tuple[str, ...]
    target_mhz: float
    lut4: int
    comb: int
    flip_flops: int
    wrapper_flip_flops: int
    lut_ram: int
    block_ram: int
    placements: tuple[Placement, ...]

    @property
    def fmax(self) -> dict[str, float]:
        """Median of the seeds, in MHz, per clock domain."""
        domains = self.placements[0].fmax
        return {
            domain: round(statistics.median(run.fmax[domain] for run in self.placements), 2)
            for domain in domains
        }

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"fmax": self.fmax}, indent=2) + "\n"

    def text(self) -> str:
        """Return a table, and the critical path of each domain for the median seed."""
        lines = [f"{self.name} on {self.device}, seeds {[run.seed for run in self.placements]}"]
        for domain, median in self.fmax.items():
            runs = sorted(run.fmax[domain] for run in self.placements)
            lines.append(f"  {domain:<12}{median:>8.1f} MHz   ({runs[0]:.1f} to {runs[-1]:.1f})")
        for label in ("lut4", *RESOURCES):
            lines.append(f"  {label:<12}{getattr(self, label):>8}")
        lines[-len(RESOURCES) + 1] += f"   ({self.wrapper_flip_flops} of them in the wrapper)"
        for domain in self.fmax:
            run = self._median_run(domain)
            lines.append(f"  critical path of {domain}, seed {run.seed}:")
            lines += [
                f"    {hop.delay:6.2f} ns  {hop.kind:<9}{hop.name}"
                for hop in run.critical_path[domain]
            ]
        return "\n".join(lines) + "\n"

    def _median_run(self, domain: str) -> Placement:
        by_speed = sorted(self.placements, key=lambda run: run.fmax[domain])
        return by_speed[(len(by_speed) - 1) // 2]


def _hops(path: Sequence[dict]) -> Iterable[Hop]:
    """Give a path in the design's own names; the pieces of a carry chain become one hop."""
    hops: list[Hop] = []
    for step in path:
        kind, delay = step["type"], step["delay"]
        name = _own_name(step["net"] if "net" in step else step["to"]["cell"])
        if kind == "setup":
            name = f"{name}.{step['to']['port']}"  # tells an enable from data
        elif delay == 0:
            continue  # wires inside of a slice
        if hops and (hops[-1].kind, hops[-1].name) == (kind, name):
            delay += hops.pop().delay
        hops.append(Hop(name, kind, round(delay, 3)))
    return hops


def _own_name(name: str) -> str:
    """Remove the instance of the wrapper, and what the tools have added to a signal's name."""
    cells = "TRELLIS_[A-Z0-9]+|LUT4|CCU2C|PFUMX|L6MUX21|DP16KD|DPR16X4|MULT18X18D"
    return re.sub(rf"^dut\.|_({cells})_.*|\$[A-Z][A-Z0-9_]*$", "", name)


def _domain(net: str) -> str:
    clock = net.removeprefix("$glbnet$").removesuffix("$TRELLIS_IO_IN")
    return "sync" if clock == "clk" else clock.removesuffix("_clk")
