"""Own a device, and let other processes of this user join on it.

Others name it by its socket file: as --device unix:FILE, or as spark.eddyline.device. Each
connection has a plan and windows of its own; tuples and results travel in shared memory. A device
that is no software is leased, so that no second process serves it.

  eddyline serve "sim:splitjoin?cores=4&window=1024" --socket /run/user/1000/eddyline.sock
  eddyline join trades.csv quotes.csv --device unix:/run/user/1000/eddyline.sock …
"""

import argparse
import signal
import sys
from types import FrameType

from eddyline.errors import QueryError
from eddyline.serve.server import Server

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("device", help="device to own; see 'eddyline devices'")
    parser.add_argument("--socket", required=True, metavar="FILE", help="socket file to make")
    parser.add_argument(
        "--sessions", type=int, default=64, metavar="N",
        help="connections at a time (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    if args.sessions < 1:
        raise QueryError(f"--sessions {args.sessions}: nobody could connect; use 1 or more")
    signal.signal(signal.SIGTERM, _end)
    with Server(args.socket, args.device, sessions=args.sessions) as server:
        print(f"serving {args.device} at {args.socket}", file=sys.stderr, flush=True)
        server.serve()
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
