"""Lease devices for the process that asks, and print them as Spark's resource scheduling wants.

Spark runs 'eddyline-fpga-discovery' (this command under a name of its own, since Spark gives its
scripts no arguments) once per worker or executor. Addresses come from EDDYLINE_FPGAS; a lease ends
with the process that asked for it.

  export EDDYLINE_FPGAS="sim:splitjoin?cores=4&window=1024#0 sim:splitjoin?cores=4&window=1024#1"
  spark-submit --conf spark.worker.resource.fpga.amount=1 \\
      --conf spark.worker.resource.fpga.discoveryScript=$(which eddyline-fpga-discovery) \\
      --conf spark.executor.resource.fpga.amount=1 --conf spark.task.resource.fpga.amount=1 \\
      --conf spark.eddyline.device=fpga …

A device that 'eddyline serve' owns has as many addresses as may share it: unix:FILE#0 unix:FILE#1
"""

import argparse
import json
import os
import sys

from eddyline.device.lease import known_addresses, lease, leased

__all__ = ["add_arguments", "run", "script"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--amount", type=int, default=int(os.environ.get("EDDYLINE_FPGA_AMOUNT", "1")),
        metavar="N", help="devices to lease (default: EDDYLINE_FPGA_AMOUNT, or 1)",
    )  # fmt: skip
    parser.add_argument(
        "--owner", type=int, metavar="PROCESS",
        help="process that the lease is for (default: the one that runs this command)",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="show leases instead")


def run(args: argparse.Namespace) -> int:
    if args.list:
        held = leased()
        for address in dict.fromkeys([*known_addresses(), *held]):
            print(f"{address}\t{f'process {held[address]}' if address in held else 'free'}")
        return 0
    addresses = lease(known_addresses(), owner=args.owner or os.getppid(), amount=args.amount)
    print(json.dumps({"name": "fpga", "addresses": addresses}))
    return 0


def script() -> None:
    from eddyline.cli.main import main

    sys.exit(main(["fpga-discovery"]))
