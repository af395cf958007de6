"""Join two streams over sliding windows and write the pairs as they are found.

Inputs are Parquet, CSV, NDJSON or Arrow files, or - for stdin. Memory is bounded by the windows,
not by the files; a pipe gives its results as they happen. Without --time, rows are taken
alternately, R first, and what remains of the longer side follows.

  eddyline join trades.parquet quotes.csv --on "r.sym = s.sym AND abs(r.px - s.px) <= 0.05" \\
      --time ts --window time:10s -o near.parquet
"""

import argparse
import json
import os
import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.cli.interrupts import Interrupts
from eddyline.cli.progress import Notice, Progress, grouped
from eddyline.cli.query import (
    add_engine_argument,
    add_query_arguments,
    query_of,
    sources_of,
)
from eddyline.device import Device
from eddyline.device.discovery import open_device
from eddyline.errors import DataError, DeviceError, QueryError
from eddyline.io.write import ReaderGone, Sink, open_sink, output_format
from eddyline.session import BATCH, Session

__all__ = ["add_arguments", "run"]

SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_query_arguments(parser)
    parser.add_argument(
        "--device", default="auto", help="where to join; see 'eddyline devices' (default: auto)"
    )
    add_engine_argument(parser)
    parser.add_argument(
        "--clock",
        type=frequency,
        metavar="FREQUENCY",
        help="clock of a simulated device, such as 130MHz: gives its tuples per second",
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="waveforms of a simulated device, as .fst or .vcd"
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=BATCH,
        metavar="ROWS",
        help="most rows given to the device at once",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="result, format by extension (default: CSV to stdout)",
    )
    parser.add_argument("--late-r", metavar="FILE", help="rows of R that came too late go here")
    parser.add_argument("--late-s", metavar="FILE", help="rows of S that came too late go here")
    parser.add_argument(
        "--json", action="store_true", help="print a summary as JSON on stdout; needs -o"
    )


def run(args: argparse.Namespace) -> int:
    _check(args)
    r, s = sources_of(args)
    query = query_of(args, r, s)
    outcome, code, pairs = "", 0, 0
    notice = Notice()
    with ExitStack() as stack:
        device = stack.enter_context(
            open_device(
                _device(args),
                trace=Path(args.trace) if args.trace else None,
                progress=notice.show,
            )
        )
        late: dict[str, Sink] = {}

        def divert(side: str, rows: pa.RecordBatch) -> None:
            if side in late:
                with interrupts.held():
                    late[side].write(rows)

        try:
            session = Session(query, r, s, device, batch=args.batch, on_late=divert)
        finally:
            notice.clear()
        interrupts = stack.enter_context(Interrupts())
        began = time.perf_counter()
        try:
            with ExitStack() as outputs:
                sink = outputs.enter_context(open_sink(args.output, session.schema))
                for side, name in (("r", args.late_r), ("s", args.late_s)):
                    if name:
                        late[side] = outputs.enter_context(open_sink(name, query.schema(side)))
                outputs.enter_context(Progress(session, [*r, *s]))
                batches = iter(session)
                while True:
                    with interrupts.welcome():
                        batch = next(batches, None)
                    if batch is None:
                        break
                    sink.write(batch)
                    pairs += batch.num_rows
        except ReaderGone:
            outcome = "stopped, the reader of the output has gone: "
        except KeyboardInterrupt:
            outcome, code = "interrupted, what was joined is written: ", 130
        except (DataError, DeviceError):
            if pairs and args.output:
                print(f"eddyline: {args.output} has the pairs found so far", file=sys.stderr)
            raise
        seconds = time.perf_counter() - began
        report = _report(session, device, pairs, seconds)
    if args.clock and report.get("cycles_per_tuple"):
        report["clock_hz"] = args.clock
        report["tuples_per_second"] = round(args.clock / report["cycles_per_tuple"])
    print(outcome + _summary(report, late_counts=query.lateness is not None), file=sys.stderr)
    if "cycles" in report:
        print(_hardware_summary(report), file=sys.stderr)
    if args.json:
        print(json.dumps(report))
    return code


def _check(args: argparse.Namespace) -> None:
    if args.json and args.output in (None, "-"):
        raise QueryError("--json prints its summary on stdout, so the pairs need -o FILE")
    if args.batch < 1:
        raise QueryError(f"a batch of {args.batch} rows holds nothing: use 1 or more")
    if args.trace and Path(args.trace).suffix not in (".fst", ".vcd"):
        raise QueryError(f"waveforms {args.trace!r}: the name must end in .fst or .vcd")
    outputs = [args.output or "-", *(name for name in (args.late_r, args.late_s) if name)]
    for number, name in enumerate(outputs):
        output_format(name)
        # A terminal, say, may be read and written.
        inputs = [args.r_file, args.s_file, *args.r, *args.s] if name != "-" else []
        others = [_file(one, 0) for one in inputs] + [_file(one, 1) for one in outputs[:number]]
        if _file(name, 1) in others:
            called = "stdout" if name == "-" else name
            raise QueryError(f"{called} is already in use here: write to another file")


def _device(args: argparse.Namespace) -> str:
    """Return the device's name, with the engine among its options."""
    if not args.engine:
        return args.device
    name, _, options = args.device.partition("?")
    if name not in ("auto", "cpu"):
        raise QueryError(f"--engine is for the cpu device, not for {name!r}")
    if "engine=" in options:
        raise QueryError(f"the engine is given twice, in {args.device!r} and with --engine")
    return f"cpu?{options}{'&' if options else ''}engine={args.engine}"


def _file(name: str, stream: int) -> tuple[int, int] | str:
    """Return what tells a file from others; ``-`` is what this process has as a stream."""
    try:
        status = os.fstat(stream) if name == "-" else os.stat(name)
    except OSError:  # it is not there yet
        return os.path.realpath(name)
    return status.st_dev, status.st_ino


def _report(session: Session, device: Device, pairs: int, seconds: float) -> dict[str, Any]:
    totals = session.totals
    return {
        "device": device.name,
        "r_rows": totals.r_rows,
        "s_rows": totals.s_rows,
        "pairs": pairs,
        "late_rows": totals.late_rows,
        "seconds": round(seconds, 6),
        "rows_per_second": round((totals.r_rows + totals.s_rows) / max(seconds, 1e-9)),
        **device.counters(),
    }


def _summary(report: dict[str, Any], *, late_counts: bool) -> str:
    late = f", {grouped(report['late_rows'])} rows too late" if late_counts else ""
    return (
        f"{grouped(report['r_rows'])} rows of R and {grouped(report['s_rows'])} of S gave "
        f"{grouped(report['pairs'])} pairs on {report['device']} in {report['seconds']:.2f} s "
        f"({grouped(report['rows_per_second'])} rows/s){late}"
    )


def _hardware_summary(report: dict[str, Any]) -> str:
    """Say what the cycles were spent on, and what was lost where losing was allowed."""
    text = (
        f"{grouped(report['cycles'])} cycles, {report['cycles_per_tuple']:.2f} per tuple, "
        f"comparators busy {report['comparator_duty']:.1%}"
    )
    if "clock_hz" in report:
        text += (
            f"; {grouped(report['tuples_per_second'])} tuples/s at {report['clock_hz'] / 1e6:g} MHz"
        )
    for name, what in (("dropped_tuples", "tuples"), ("dropped_results", "results")):
        if report.get(name):
            text += f"\nwarning: {grouped(report[name])} {what} were dropped, as admission allows"
    if report.get("lost_rows"):
        text += (
            f"\nwarning: {grouped(report['lost_rows'])} rows were lost with cores that are off: "
            "their pairs with later rows are missing"
        )
    return text


def frequency(text: str) -> float:
    """Read a frequency in hertz, with or without a unit."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(k|M|G)?(Hz)?\s*", text, re.IGNORECASE)
    value = float(match[1]) * SCALES[(match[2] or "").lower()] if match else 0.0
    if not value:
        raise argparse.ArgumentTypeError(f"cannot read the clock {text!r}: write it as 130MHz")
    return value
