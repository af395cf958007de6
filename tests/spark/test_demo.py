"""The tour's stop at Spark, as ``make demo`` runs it."""

import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq

COMMAND = """
from pathlib import Path
from eddyline.cli.demo_spark import spark_tour
raise SystemExit(spark_tour(Path("demo")))
"""


def test_spark_refuses_and_gateware_joins(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", COMMAND], cwd=tmp_path, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr[-3000:]
    assert "Stream-stream join without equality predicate is not supported" in told.stdout
    r, s = (pq.read_table(tmp_path / "demo" / name) for name in ("trades", "quotes"))
    age = np.abs(np.subtract.outer(r["ts"].cast("int64").to_numpy(), s["ts"].cast("int64")))
    near = np.abs(np.subtract.outer(r["price"].to_numpy(), s["price"].to_numpy())) <= 2
    places = zip(*np.nonzero(near & (age <= 10_000)), strict=True)
    expected = sorted((r["id"][i].as_py(), s["id"][j].as_py()) for i, j in places)
    joined = pq.read_table(tmp_path / "demo" / "joined")
    found = zip(joined["r_id"].to_pylist(), joined["s_id"].to_pylist(), strict=True)
    assert sorted(found) == expected
    pairs = f"{len(expected):,}".replace(",", " ")
    assert f"2 400 rows in 3 micro-batches gave {pairs} pairs" in told.stdout
