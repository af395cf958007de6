"""The options that describe a query, shared by ``join`` and ``explain``."""

import argparse
import re
from typing import Any

import pyarrow as pa

from eddyline.api import common_schema, make_query
from eddyline.errors import QueryError
from eddyline.io.read import open_source
from eddyline.io.source import Source
from eddyline.query import Query
from eddyline.query.window import parse_window

__all__ = ["add_engine_argument", "add_query_arguments", "query_of", "query_options", "sources_of"]

TYPES = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float32": pa.float32(), "float64": pa.float64(), "bool": pa.bool_(), "date": pa.date32(),
    "timestamp": pa.timestamp("us"), "string": pa.string(),
}  # fmt: skip


def add_engine_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=["auto", "bisort", "rap", "wib", "hash", "grid", "sorted", "nested"],
        help="how the cpu device searches its windows; see 'eddyline explain' (default: auto)",
    )


def add_query_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("r_file", metavar="R", help="one stream; - is stdin")
    parser.add_argument("s_file", metavar="S", help="the other stream")
    parser.add_argument(
        "--r", action="append", default=[], metavar="FILE", help="a further physical stream of R"
    )
    parser.add_argument(
        "--s", action="append", default=[], metavar="FILE", help="a further physical stream of S"
    )
    parser.add_argument(
        "--on",
        required=True,
        metavar="PREDICATE",
        help="SQL condition over r and s, such as 'r.x BETWEEN s.a-10 AND s.a+10'",
    )
    parser.add_argument(
        "--window",
        default="rows:65536",
        metavar="WINDOW",
        help="rows:N, time:10s or unbounded, for both sides (default: %(default)s)",
    )
    parser.add_argument("--window-r", metavar="WINDOW", help="window of R, if it differs")
    parser.add_argument("--window-s", metavar="WINDOW", help="window of S, if it differs")
    parser.add_argument(
        "--time",
        metavar="COLUMN",
        help="time column, or R's and S's as 'ts,when'; without it rows are taken alternately",
    )
    parser.add_argument(
        "--lateness", metavar="DURATION", help="how far times may run backwards in a stream, as 2s"
    )
    parser.add_argument(
        "--order",
        default="none",
        metavar="ORDER",
        help="none, outer (by arrival), inner (and by partner), outer:N, inner:N",
    )
    parser.add_argument(
        "--select",
        metavar="COLUMNS",
        help="result columns, such as 'r.*, s.a AS price, result_time' (default: r.*, s.*)",
    )
    parser.add_argument(
        "--types",
        metavar="TYPES",
        help="types of CSV and NDJSON columns, such as 'r.x=int32, s.price=decimal(9,2)'",
    )


def sources_of(args: argparse.Namespace) -> tuple[list[Source], list[Source]]:
    """Open all physical streams."""
    names = {"r": [args.r_file, *args.r], "s": [args.s_file, *args.s]}
    if (names["r"] + names["s"]).count("-") > 1:
        raise QueryError("stdin can be only one of the streams")
    types = _types(args.types or "")
    sides = {}
    for side in "rs":
        first, *further = names[side]
        sides[side] = [open_source(first, types[side])]
        # What was guessed for one file of a side holds for the others.
        guessed = {one.name: one.type for one in sides[side][0].schema if one.type != pa.null()}
        sides[side] += [open_source(name, types[side], like=guessed) for name in further]
    return sides["r"], sides["s"]


def query_of(args: argparse.Namespace, r: list[Source], s: list[Source]) -> Query:
    return make_query(common_schema(r, "r"), common_schema(s, "s"), args.on, **query_options(args))


def query_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the options say beside the predicate, as keywords."""
    time: Any = args.time
    if time and "," in time:
        time = tuple(part.strip() for part in time.split(",", 1))
    return {
        "window": tuple(parse_window(w or args.window) for w in (args.window_r, args.window_s)),
        "time": time,
        "lateness": args.lateness,
        "order": args.order,
        "select": args.select,
    }


def _types(text: str) -> dict[str, dict[str, pa.DataType]]:
    types: dict[str, dict[str, pa.DataType]] = {"r": {}, "s": {}}
    for item in re.split(r",(?![^(]*\))", text):
        if not item.strip():
            continue
        match = re.fullmatch(r"\s*([rs])\.(.+?)\s*=\s*(.+?)\s*", item)
        if not match:
            raise QueryError(f"cannot read the type {item.strip()!r}: write r.column=int32")
        types[match[1]][match[2]] = _type(match[3])
    return types


def _type(name: str) -> pa.DataType:
    decimal = re.fullmatch(r"decimal\((\d+)\s*,\s*(\d+)\)", name)
    if decimal and int(decimal[2]) <= int(decimal[1]) and 1 <= int(decimal[1]) <= 18:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    moment = re.fullmatch(r"timestamp\((s|ms|us|ns)\)", name)
    if moment:
        return pa.timestamp(moment[1])
    if name not in TYPES:
        raise QueryError(
            f"no type {name!r} (known: {', '.join(TYPES)}, timestamp(ms), decimal(9,2))"
        )
    return TYPES[name]
