"""Measure a part of Eddyline; write tables and plots.

  splitjoin   the gateware, simulated cycle by cycle: latency against cores, beside the handshake
              join; pipeline stages; throughput against precision and match rate; how busy the
              comparators are
  engines     the cpu's indexes, RaP-Table, WiB+-Tree and BI-Sort: insertion and lookups per second
              of CPU against batches, partitions and selectivity; memory

Gateware is counted in cycles, so a busy machine changes nothing. The first run compiles the
simulators, which takes most of the time; if the measured latency is not what the operator's formula
promises, the exit code is 1. Tables go to the output folder and to stdout; so do the numbers as
results.json, and plots as SVG.
"""

import argparse
import json
from pathlib import Path

from eddyline.cli.bench.steps import Steps
from eddyline.errors import DeviceError, MachineError, QueryError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", choices=("splitjoin", "engines"))
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder for tables and plots (default: build/bench/ and the subject)",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--full",
        action="store_true",
        help="the papers' sizes: up to 64 cores, subwindows of 8M tuples; takes many minutes",
    )
    size.add_argument(
        "--cores", metavar="K,K,...", help="of splitjoin: numbers of cores, such as 1,2,4"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON instead")


def run(args: argparse.Namespace) -> int:
    return _engines(args) if args.subject == "engines" else _splitjoin(args)


def _engines(args: argparse.Namespace) -> int:
    from eddyline.cli.bench.engines import Sizes, measure
    from eddyline.cli.bench.figures import write

    if args.cores is not None:
        raise QueryError("--cores is an option of splitjoin")
    folder = _folder(args)
    with Steps() as steps:
        results = measure(Sizes.chosen(full=args.full), steps)
    text = write(results, folder)
    print(json.dumps(results, indent=1) if args.json else text)
    return 0


def _splitjoin(args: argparse.Namespace) -> int:
    # These need the gateware's packages, which other commands do without.
    try:
        from eddyline.cli.bench.report import write
        from eddyline.cli.bench.splitjoin import Sizes, disagreements, measure
    except ModuleNotFoundError as error:
        raise MachineError(
            f"measuring gateware needs {error.name}: pip install 'eddyline[hw]'"
        ) from None
    sizes = Sizes.chosen(full=args.full, cores=args.cores)
    folder = _folder(args)
    with Steps() as steps:
        results = measure(sizes, steps)
    text = write(results, folder)
    print(json.dumps(results, indent=1) if args.json else text)
    wrong = disagreements(results)
    if wrong:
        raise DeviceError("the latency is not what the formula promises:\n  " + "\n  ".join(wrong))
    return 0


def _folder(args: argparse.Namespace) -> Path:
    folder = Path(args.out or f"build/bench/{args.subject}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot make folder {folder}: {error.strerror}") from None
    return folder
