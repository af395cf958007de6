"""Measure the gateware of an operator, simulated cycle by cycle; write tables and plots.

  splitjoin   latency against cores, beside the handshake join; pipeline stages; throughput against
              precision and match rate; how busy the comparators are

Everything is counted in cycles, so a busy machine changes nothing. The first run compiles the
simulators, which takes most of the time. Tables go to the output folder and to stdout; so do the
numbers as results.json, and plots as SVG. If the measured latency is not what the operator's
formula promises, the exit code is 1.
"""

import argparse
import json
from pathlib import Path

from eddyline.errors import DeviceError, MachineError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", choices=("splitjoin",))
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="build/bench/splitjoin",
        help="folder for tables and plots (default: build/bench/splitjoin)",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--full", action="store_true", help="up to 64 cores; compiling takes many minutes"
    )
    size.add_argument("--cores", metavar="K,K,...", help="numbers of cores, such as 1,2,4")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON instead")


def run(args: argparse.Namespace) -> int:
    # These need the gateware's packages, which other commands do without.
    try:
        from eddyline.cli.bench.report import write
        from eddyline.cli.bench.splitjoin import Sizes, disagreements, measure
    except ModuleNotFoundError as error:
        raise MachineError(
            f"measuring gateware needs {error.name}: pip install 'eddyline[hw]'"
        ) from None
    from eddyline.cli.bench.steps import Steps

    sizes = Sizes.chosen(full=args.full, cores=args.cores)
    folder = Path(args.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot make folder {folder}: {error.strerror}") from None
    with Steps() as steps:
        results = measure(sizes, steps)
    text = write(results, folder)
    print(json.dumps(results, indent=1) if args.json else text)
    wrong = disagreements(results)
    if wrong:
        raise DeviceError("the latency is not what the formula promises:\n  " + "\n  ".join(wrong))
    return 0
