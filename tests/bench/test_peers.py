"""Every peer finds the pairs of the definition, in its own way."""

import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eddyline
from bench.peers import workloads
from bench.peers.duckdb_peer import DuckDB
from bench.peers.numpy_peer import Numpy
from bench.peers.participant import Participant, measure, processor_seconds
from bench.peers.polars_peer import Polars
from bench.peers.workloads import Band, Workload

PEERS = [DuckDB(), Polars(), Numpy()]
GENERATED = [workloads.band, workloads.band_2d, workloads.equality]
LARGEST = 2**31 - 1


def expected(work: Workload) -> list[tuple[int, int]]:
    """Compare all rows with all rows."""
    i, j = np.arange(work.rows)[:, None], np.arange(work.rows)[None, :]
    holds = (1 - work.window <= i - j) & (i - j <= work.window)
    for band in work.bands:
        r, s = work.r[band.r].to_numpy()[:, None], work.s[band.s].to_numpy()[None, :]
        middle, other = (r, s) if band.around == "r" else (s, r)
        if work.floating(band):
            reach = np.float32(band.reach)
        else:
            middle, reach = middle.astype(np.int64), band.reach
        holds &= (middle - reach <= other) & (other <= middle + reach)
    return [tuple(pair) for pair in np.argwhere(holds).tolist()]


def found(peer: Participant, work: Workload) -> list[tuple[int, int]]:
    return pairs(peer.prepare(work).run())


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["i"].to_pylist(), table["j"].to_pylist(), strict=True))


@st.composite
def works(draw: st.DrawFn) -> Workload:
    """Small streams with many ties, any window, one or two bands or an equality."""
    rows, window = draw(st.integers(1, 60)), draw(st.integers(1, 80))
    top = draw(st.sampled_from([3, 40, 1000]))
    base = draw(st.sampled_from([0, LARGEST - top]))
    whole = st.integers(base, base + top)
    halves = st.integers(-2 * top, 2 * top).map(lambda value: value / 2)
    close = st.floats(-top, top, width=32)
    bands, columns = [], ({}, {})
    for number in range(draw(st.integers(1, 2))):
        floating = number == 1 and draw(st.booleans())
        reach = draw(st.integers(1 if floating else 0, top))
        around = draw(st.sampled_from("rs"))
        bands.append(Band(f"x{number}", f"a{number}", reach, around))
        values = st.one_of(halves, close) if floating else whole
        kind = pa.float32() if floating else pa.int32()
        for side, name in zip(columns, (f"x{number}", f"a{number}"), strict=True):
            side[name] = pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind)
    seq = pa.array(np.arange(rows, dtype=np.int32))
    r, s = (pa.table({"seq": seq} | side) for side in columns)
    return Workload("drawn", r, s, tuple(bands), window, draw(st.sampled_from([1.0, 64.0])))


def of(values_r: list[int], values_s: list[int], reach: int, window: int) -> Workload:
    seq = pa.array(np.arange(len(values_r), dtype=np.int32))
    r, s = (
        pa.table({"seq": seq, "value": pa.array(values, pa.int32())})
        for values in (values_r, values_s)
    )
    return Workload("given", r, s, (Band("value", "value", reach),), window)


def edge(around: str) -> Workload:
    """Make a pair that matches because a bound is rounded, with the rounding on one side only."""
    sides = [{"seq": [0], "x": [0], "y": [value]} for value in (-2.5976206e-16, 3.0)]
    if around == "s":
        sides.reverse()
    kinds = pa.schema([("seq", pa.int32()), ("x", pa.int32()), ("y", pa.float32())])
    r, s = (pa.table(side, kinds) for side in sides)
    return Workload("edge", r, s, (Band("x", "x"), Band("y", "y", 3, around)), 1)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@settings(max_examples=20)
@given(works())
@example(of([5] * 7, [5] * 7, 0, 1))
@example(of([5] * 7, [5] * 7, 2, 3))
@example(edge("r"))
@example(edge("s"))
@example(of([LARGEST, 0], [LARGEST, LARGEST - 7], 7, 9))
def test_pairs(peer: Participant, work: Workload) -> None:
    assert found(peer, work) == expected(work)


@pytest.mark.parametrize("window", [1, 7, 64, 1000])
@pytest.mark.parametrize("make", GENERATED)
def test_generated(make, window: int) -> None:
    work = make(rows=300, window=window, selectivity=2)
    right = expected(work)
    joined = eddyline.join(
        work.r, work.s, on=work.on, window=eddyline.rows(window), select="r.seq AS i, s.seq AS j"
    )
    assert pairs(joined.read_all()) == right
    for peer in PEERS:
        assert found(peer, work) == right, peer.name
        assert found(peer, replace(work, selectivity=64)) == right, peer.name


@pytest.mark.parametrize("make", GENERATED)
def test_pieces(make) -> None:
    """The pieces of many windows together are the whole."""
    work = make(rows=150_000, window=500)
    duckdb, polars = (found(peer, work) for peer in (DuckDB(), Polars()))
    assert duckdb == polars
    assert len(duckdb) == len(set(duckdb))
    # Rows find as many partners as the workload says.
    assert 0.8 < len(duckdb) / work.tuples < 1.3


@pytest.mark.parametrize(("rows", "window"), [(1, 1), (9, 4), (9, 9), (9, 20)])
def test_comparisons(rows: int, window: int) -> None:
    work = workloads.equality(rows, window, selectivity=2 * window)
    assert work.comparisons == len(expected(replace(work, bands=())))


def test_plans() -> None:
    one, two, equal = (make(1000, 100) for make in GENERATED)
    for work in (one, two, equal):
        assert "Hash Join" in DuckDB().plan(work)
        assert "join on" in Polars().plan(work)
    assert "on values" in Polars().plan(replace(one, selectivity=64))


def test_measure() -> None:
    work = workloads.band(rows=2000, window=100)
    whole, part = measure(DuckDB(), work, 1), measure(Numpy(comparisons=40_000), work, 1)
    assert whole.pairs == len(expected(work))
    assert not whole.extrapolated
    assert part.extrapolated
    assert 0.5 < part.pairs / whole.pairs < 2
    assert processor_seconds() > 0


WORKER = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if not os.fork():
    while time.process_time() < 0.5:
        pass
    print("worked", flush=True)
    sys.stdin.readline()
    os._exit(0)
try:
    os.wait()
except ChildProcessError:  # it has ended, and nobody was told
    print("ended", flush=True)
sys.stdin.readline()
"""


def test_the_time_of_workers_that_have_ended_counts() -> None:
    """Spark's workers end when they have been idle, and their parent does not wait for them."""
    began = processor_seconds()
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WORKER], text=True, bufsize=1, **pipes) as parent:
        assert parent.stdin
        assert parent.stdout
        assert parent.stdout.readline() == "worked\n"
        assert processor_seconds() - began > 0.4
        parent.stdin.write("\n")
        assert parent.stdout.readline() == "ended\n"
        assert processor_seconds() - began > 0.4
        parent.stdin.write("\n")


@pytest.mark.slow
def test_spark() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas' version and of sockets
        from bench.peers.spark_peer import Spark

        for make, window in [(make, window) for make in GENERATED for window in (1, 40, 1000)]:
            work = make(rows=300, window=window, selectivity=2)
            assert found(Spark(), work) == expected(work), work.name
        assert "BroadcastHashJoin" in Spark().plan(work)
