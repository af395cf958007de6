"""Run the TPC-H queries of the BiStream paper on streams: python -m examples.bistream [SCALE].

Data comes from tpchgen-cli; lines and orders are cut into files, each of which is a micro-batch.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from eddyline.spark import session
from examples.bistream import queries
from examples.bistream.view import View

STREAMS, TABLES = ("lineitem", "orders"), ("customer", "supplier", "nation", "region")
SCALE = "0.003"
NATIONS = ("INDIA", "CHINA")


def generate(folder: Path, scale: str, *, files: int) -> None:
    """Write TPC-H's tables, and those that are streamed once more in parts."""
    tool = str(Path(sys.executable).parent / "tpchgen-cli")
    tables = ",".join([*STREAMS, *TABLES])
    command = [tool, "parquet", "-s", scale, "--output-dir", str(folder), "--tables", tables]
    subprocess.run(command, check=True, capture_output=True)
    for name in STREAMS:
        (folder / name).mkdir()
        table = pq.read_table(folder / f"{name}.parquet")
        step = -(-len(table) // files)
        for number in range(files):
            pq.write_table(table.slice(number * step, step), folder / name / f"{number}.parquet")


def opened(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    frames = {name: spark.read.parquet(str(folder / f"{name}.parquet")) for name in TABLES}
    for name in STREAMS:
        schema = spark.read.parquet(str(folder / f"{name}.parquet")).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frames[name] = reader.parquet(str(folder / name))
    return frames


def views() -> dict[str, View]:
    return {
        "q5": View(["n_name"], ("sum", "revenue")),
        "q7": View(["supplier", "customer", "year"], ("sum", "revenue")),
        "band": View(
            ["n_name"],
            ("count", "l_extendedprice"), ("min", "l_extendedprice"), ("max", "l_extendedprice"),
        ),
    }  # fmt: skip


def results(tables: dict[str, DataFrame]) -> dict[str, DataFrame]:
    return {
        "q5": queries.q5(tables),
        "q7": queries.q7(tables, *NATIONS),
        "band": queries.band(tables),
    }


def main() -> None:
    scale = sys.argv[1] if len(sys.argv) > 1 else SCALE
    with tempfile.TemporaryDirectory() as name:
        generate(Path(name), scale, files=3)
        for query, joined in results(opened(session("bistream"), Path(name))).items():
            for row in views()[query].run(joined, f"{name}/state-{query}"):
                sys.stdout.write(f"{query}: {', '.join(map(str, row))}\n")


if __name__ == "__main__":
    main()
