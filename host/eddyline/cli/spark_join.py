"""Run a join as a Spark job, on two files or folders, or on two folders that files drop into.

The query is that of 'eddyline join'. Results are written by Spark, so the output is a folder of
files. With --stream, folders are read as streams: what is there is joined and, with --follow, what
comes later too; started again with the same --checkpoint, a query goes on where it was.

  eddyline spark-join trades.parquet quotes.parquet --on "abs(r.px - s.px) <= 0.05" \\
      --time ts --window time:10s -o near.parquet
  eddyline spark-join trades/ quotes/ --stream --follow --checkpoint state/ --lateness 30s \\
      --on "abs(r.px - s.px) <= 0.05" --time ts --window time:10s -o near.parquet
"""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from eddyline.cli.interrupts import Interrupts
from eddyline.cli.progress import Line, Notice, grouped
from eddyline.cli.query import add_query_arguments, query_options
from eddyline.errors import DataError, MachineError, QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import StructType

__all__ = ["add_arguments", "run"]

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".ndjson": "json", ".orc": "orc"}
SECONDS = 1  # between looks at how far a query is


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_query_arguments(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER",
        help="result, format by extension: .parquet, .csv, .json or .orc",
    )  # fmt: skip
    parser.add_argument("--stream", action="store_true", help="read R and S as streams of files")
    parser.add_argument(
        "--follow", action="store_true", help="with --stream: wait for more files until interrupted"
    )
    parser.add_argument(
        "--checkpoint", metavar="FOLDER", help="with --stream: where Spark keeps its state"
    )
    parser.add_argument(
        "--files-per-trigger", type=int, metavar="N",
        help="with --stream: files of R, and of S, in one micro-batch at most (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--late", metavar="NAME",
        help="with --stream: keep rows that come too late among the results, with a column of this "
        "name that says r or s for them and nothing for pairs",
    )  # fmt: skip
    parser.add_argument("--device", help="where units join; see 'eddyline devices' (default: auto)")
    parser.add_argument(
        "--units", type=int, metavar="N", help="parts that the stored rows are cut into"
    )
    parser.add_argument(
        "--subgroups", type=int, metavar="N", help="groups of units, for equalities"
    )
    parser.add_argument(
        "--draining", metavar="N[/M],…",
        help="with --stream: units that earlier runs from the checkpoint had, as 4,8, or as 8/2 "
        "where they had 8 units in 2 subgroups",
    )  # fmt: skip
    parser.add_argument(
        "--distinct", nargs="?", const=True, metavar="WINDOW",
        help="leave out results that equal one of so long before, time:1m or unbounded (default: "
        "the longer window of the join)",
    )  # fmt: skip
    parser.add_argument(
        "--master", default="local[*]", help="Spark's master (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    _check(args)
    draining = _draining(args.draining)
    try:
        from eddyline.spark import session, stream_join
    except ImportError as error:
        raise MachineError(f"Spark is not installed ({error}): install eddyline[spark]") from None
    notice = Notice()
    notice.show("starting Spark")
    spark = session("eddyline spark-join", master=args.master)
    notice.clear()
    try:
        r, s = (_read(spark, name, args) for name in (args.r_file, args.s_file))
        joined = stream_join(
            r, s, args.on, **query_options(args), device=args.device, units=args.units,
            subgroups=args.subgroups, draining=draining, late=args.late, distinct=args.distinct,
        )  # fmt: skip
        began = time.perf_counter()
        read, code = _streamed(args, joined) if args.stream else _written(args, joined)
        seconds = time.perf_counter() - began
        results = _results(spark, args.output, joined.schema)
        rows = results.count()
        late = results.filter(results[args.late].isNotNull()).count() if args.late else 0
    finally:
        spark.stop()
    what = f"{grouped(rows - late)} pairs"
    what += f" and {grouped(late)} late rows" if args.late else ""
    if args.stream:  # the output has what earlier runs have found, too
        what = f"{grouped(read)} rows read now, {what} in all"
    print(f"{what} in {args.output}, {seconds:.1f} s on Spark", file=sys.stderr)
    return code


def _check(args: argparse.Namespace) -> None:
    if args.r or args.s:
        raise QueryError("further physical streams of a side: put their files into its folder")
    if args.types:
        raise QueryError("--types: Spark reads the types of columns itself")
    if _suffix(args.output) not in FORMATS:
        raise QueryError(f"{args.output!r}: the name must end in one of {', '.join(FORMATS)}")
    streaming = {
        "--follow": args.follow, "--checkpoint": args.checkpoint, "--late": args.late,
        "--files-per-trigger": args.files_per_trigger, "--draining": args.draining,
    }  # fmt: skip
    if not args.stream and (given := [name for name, value in streaming.items() if value]):
        raise QueryError(f"{given[0]} is for streams: add --stream")
    if args.files_per_trigger is not None and args.files_per_trigger < 1:
        raise QueryError(
            f"--files-per-trigger {args.files_per_trigger}: a micro-batch has one file at least"
        )
    if not args.stream and Path(args.output).exists():
        raise QueryError(f"{args.output} is there already: remove it, or write to another folder")
    if args.stream and not args.checkpoint:
        raise QueryError("a stream needs --checkpoint FOLDER, so that it can go on after a stop")


def _draining(text: str | None) -> list[int | tuple[int, int]]:
    """Return numbers of units, and pairs of units and subgroups."""
    found: list[int | tuple[int, int]] = []
    for part in text.split(",") if text else []:
        units, cut, subgroups = part.strip().partition("/")
        if not units.isdecimal() or (cut and not subgroups.isdecimal()):
            raise QueryError(
                f"--draining {text}: {part.strip()!r} is no number of units: write 4,8 or 8/2, say"
            )
        found.append((int(units), int(subgroups)) if cut else int(units))
    return found


def _read(spark: "SparkSession", name: str, args: argparse.Namespace) -> "DataFrame":
    path = Path(name)
    if not path.exists():
        raise DataError(f"{name} does not exist")
    if args.stream and not path.is_dir():
        raise QueryError(f"{name} is a file: a stream is a folder that files drop into")
    suffix = _suffix(name)
    if suffix not in FORMATS and path.is_dir():
        known = [one for one in sorted(path.iterdir()) if _suffix(one.name) in FORMATS]
        suffix = _suffix(known[0].name) if known else ""
    if suffix not in FORMATS:
        raise DataError(f"{name} holds no {', '.join(FORMATS)} files")
    options = {"header": "true", "inferSchema": "true"} if suffix == ".csv" else {}
    table = spark.read.format(FORMATS[suffix]).options(**options).load(name)
    if not args.stream:
        return table
    if args.files_per_trigger:
        options["maxFilesPerTrigger"] = str(args.files_per_trigger)
    reader = spark.readStream.format(FORMATS[suffix]).options(**options).schema(table.schema)
    return reader.load(name)


def _suffix(name: str) -> str:
    return Path(name.rstrip("/")).suffix


def _written(args: argparse.Namespace, joined: "DataFrame") -> tuple[int, int]:
    with Line(lambda: _tasks(joined.sparkSession)):
        joined.write.format(FORMATS[_suffix(args.output)]).option("header", "true").save(
            args.output
        )
    return 0, 0


def _streamed(args: argparse.Namespace, joined: "DataFrame") -> tuple[int, int]:
    """Run a stream to its end, or until interrupted; return the rows read and the exit code."""
    writer = joined.writeStream.format(FORMATS[_suffix(args.output)]).option("header", "true")
    writer = writer.option("path", args.output).option("checkpointLocation", args.checkpoint)
    trigger = {"processingTime": "0 seconds"} if args.follow else {"availableNow": True}
    query = writer.trigger(**trigger).start()
    counted = _Counted(query)
    code = 0
    with Interrupts() as interrupts:
        try:
            with Line(counted.line):
                counted.wait(interrupts)
        except KeyboardInterrupt:
            query.stop()
            code = 130
    return counted.rows, code


def _results(spark: "SparkSession", name: str, schema: "StructType") -> "DataFrame":
    return (
        spark.read.schema(schema).option("header", "true").format(FORMATS[_suffix(name)]).load(name)
    )


class _Counted:
    """Rows that a streaming query has read so far, in this run."""

    def __init__(self, query: "StreamingQuery"):
        self._query = query
        self._batches: dict[int, int] = {}
        self.rows = 0

    def wait(self, interrupts: Interrupts) -> None:
        """Wait for the end of the query, and look often: Spark knows of its last batches only.

        Ctrl-C ends that between two calls of Java, where nobody logs it as a failure.
        """
        try:
            while not self._query.awaitTermination(SECONDS):
                self._look()
                with interrupts.welcome():
                    pass
        finally:
            self._look()

    def line(self) -> str:
        last = self._query.lastProgress
        speed = last.processedRowsPerSecond if last else 0.0
        batches = len(self._batches)
        return f"batch {batches}  {grouped(self.rows)} rows  {grouped(round(speed))} rows/s"

    def _look(self) -> None:
        for one in self._query.recentProgress:
            self._batches[one.batchId] = one.numInputRows
        self.rows = sum(self._batches.values())


def _tasks(spark: "SparkSession") -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    done, all_ = (
        sum(getattr(s, k) for s in stages if s) for k in ("numCompletedTasks", "numTasks")
    )
    return f"Spark works on {len(stages)} stages, {done} of {all_} tasks done"
