"""Write the papers' benchmark streams, reproducibly from a seed.

  splitjoin   SplitJoin section 7.1: x, y against a, b, uniform; a two-dimensional band
  panjoin     PanJoin section V-A: <key, value>, with chosen selectivity and skew
  scalejoin   ScaleJoin section VI: several physical streams with changing rates

The command prints how to join what it wrote.
"""

import argparse
import itertools
import math
from pathlib import Path

from eddyline.cli.progress import grouped
from eddyline.errors import MachineError, QueryError
from eddyline.io.write import open_sink
from eddyline.streams import RATES, SPREADS, PanJoin, ScaleJoin, SplitJoin

__all__ = ["add_arguments", "run"]

FORMATS = ("parquet", "csv", "ndjson", "arrow")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", choices=("splitjoin", "panjoin", "scalejoin"))
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder for the streams"
    )
    parser.add_argument(
        "--rows", type=int, default=100_000, help="rows per stream (default: 100000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="same seed, same streams (default: 1)")
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="default: parquet")
    parser.add_argument(
        "--rate", type=float, metavar="N", help="splitjoin: add a time column, N rows per second"
    )
    parser.add_argument(
        "--selectivity", type=float, default=1.0, help="panjoin: partners per tuple (default: 1)"
    )
    parser.add_argument(
        "--window", type=int, default=65_536, metavar="ROWS", help="panjoin: window it is meant for"
    )
    parser.add_argument("--distribution", choices=SPREADS, default="uniform", help="panjoin: skew")
    parser.add_argument(
        "--spread", type=float, help="panjoin: width of the values or of a peak, 0 to 1"
    )
    parser.add_argument(
        "--modes", type=int, default=1, help="panjoin: number of peaks (default: 1)"
    )
    parser.add_argument("--pattern", choices=RATES, default="constant", help="scalejoin: rates")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="scalejoin: length of the streams (default: 60)"
    )


def run(args: argparse.Namespace) -> int:
    benchmark = _benchmark(args)
    folder = Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot make folder {folder}: {error.strerror}") from None
    paths = {}
    for name in benchmark.streams:
        paths[name] = folder / f"{name}.{args.format}"
        batches = benchmark.batches(name)
        first = next(batches)
        rows = 0
        with open_sink(str(paths[name]), first.schema) as sink:
            for batch in itertools.chain([first], batches):
                sink.write(batch)
                rows += batch.num_rows
        print(f"{paths[name]}: {grouped(rows)} rows")
    print(f"join them with:\n  {_command(benchmark, paths)}")
    return 0


def _benchmark(args: argparse.Namespace) -> SplitJoin | PanJoin | ScaleJoin:
    numbers = (args.seconds, args.selectivity, args.rate or 1, args.spread or 1)
    if not all(map(math.isfinite, numbers)):
        raise QueryError("seconds, selectivity, rate and spread must be finite numbers")
    if args.rows < 0 or args.seconds < 0:
        raise QueryError("rows and seconds cannot be negative")
    if args.rate is not None and args.rate <= 0:
        raise QueryError(f"a rate of {args.rate} rows per second never delivers a row")
    if args.benchmark == "splitjoin":
        return SplitJoin(args.rows, args.seed, args.rate)
    if args.benchmark == "scalejoin":
        return ScaleJoin(args.seconds, args.seed, args.pattern)
    return PanJoin(
        args.rows,
        args.seed,
        window=args.window,
        selectivity=args.selectivity,
        distribution=args.distribution,
        spread=args.spread,
        modes=args.modes,
    )


def _command(benchmark: SplitJoin | PanJoin | ScaleJoin, paths: dict[str, Path]) -> str:
    sides = {side: [path for name, path in paths.items() if name[0] == side] for side in "rs"}
    further = "".join(f" --{side} {path}" for side in "rs" for path in sides[side][1:])
    return (
        f'eddyline join {sides["r"][0]} {sides["s"][0]}{further} --on "{benchmark.on}" '
        f"{benchmark.hint}"
    )
