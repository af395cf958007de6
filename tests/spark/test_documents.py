"""The examples of the documents run as they are written."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "spark.md").read_text()


def test_the_guides_example_runs(spark, tmp_path):
    rng = np.random.default_rng(1)
    for name in ("trades", "quotes"):
        (tmp_path / name).mkdir()
        ts = np.sort(rng.integers(0, 60_000, 200)) + 1_600_000_000_000
        columns = {
            "ts": pa.array(ts, pa.timestamp("ms", "UTC")),
            "px": rng.random(200),
            "id": np.arange(200),
        }
        pq.write_table(pa.table(columns), tmp_path / name / "0.parquet")
    first, split, count, then = (
        re.sub(r'"([\w-]+/[^"]*)"', rf'"{tmp_path}/\1"', one)
        for one in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    )
    names: dict = {"F": F}
    exec(first, names)
    found = spark.read.parquet(str(tmp_path / "near"))
    sides = [pq.read_table(tmp_path / name).to_pydict() for name in ("trades", "quotes")]
    expected = [
        (i, j)
        for i, (t, p) in enumerate(zip(sides[0]["ts"], sides[0]["px"], strict=True))
        for j, (u, q) in enumerate(zip(sides[1]["ts"], sides[1]["px"], strict=True))
        if abs(p - q) <= 0.05 and abs((t - u).total_seconds()) <= 10
    ]
    assert sorted((row.trade, row.quote) for row in found.collect()) == expected
    exec(split, names)
    for number in (0, 0, 1):  # the first comes again
        names["split"](spark.sql("SELECT id, IF(id < 2, 'r', NULL) AS late FROM range(5)"), number)
    written = {name: spark.read.parquet(str(tmp_path / name)) for name in ("pairs", "late")}
    assert {name: some.count() for name, some in written.items()} == {"pairs": 6, "late": 4}
    exec(count, names)
    assert [tuple(row) for row in names["counts"].collect()] == [("r", 4)]
    exec(then, names)
    assert names["per_minute"].columns == ["window", "count"]


def test_the_readmes_example_runs(spark):
    rows = "SELECT timestamp_seconds(id) AS ts, id / 100 AS px FROM range(20)"
    names: dict = {"trades": spark.sql(rows), "quotes": spark.sql(rows)}
    exec(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1], names)
    found = sorted((row.r_px, row.s_px) for row in names["near"].collect())
    prices = [number / 100 for number in range(20)]
    assert found == [(p, q) for p in prices for q in prices if abs(p - q) <= 0.05]
