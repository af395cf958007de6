"""Joins in ``local[2,4]``, where Spark tries tasks again: FOLDER as argument.

First tasks that fail after their units went on, then devices that worker processes lease.
"""

import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from eddyline.device.lease import known_addresses, leased  # noqa: E402
from eddyline.spark import session, stream_join  # noqa: E402
from tests.spark.conftest import QUIET  # noqa: E402
from tests.spark.failing import failing_once  # noqa: E402
from tests.spark.streams import Rows, finished, pairs, stream  # noqa: E402

EQUAL = "r.x = s.x"
R, S = Rows.random(1, 200), Rows.random(2, 200)


def main(folder: Path) -> None:
    spark = session("local", master="local[2,4]", config=QUIET)
    for name, rows in (("r", R), ("s", S)):
        rows.write(folder / name, 4)
    spark.conf.set("spark.eddyline.metrics", str(folder / "metrics"))
    joined = _streams(spark, folder, "cpu")
    told = {"retried": finished(joined.mapInArrow(failing_once, joined.schema), folder / "failed")}
    told["streams"] = finished(_streams(spark, folder, "fpga"), folder / "leased")
    told["between"] = [one for one in leased() if one in known_addresses()]
    tables = stream_join(R.frame(spark), S.frame(spark), EQUAL, device="fpga", **_query())
    told["tables"] = pairs(tables)
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


def _streams(spark: SparkSession, folder: Path, device: str) -> DataFrame:
    sides = (stream(spark, folder / name) for name in "rs")
    return stream_join(*sides, EQUAL, device=device, **_query())


def _query() -> dict:
    return {"window": "time:9s", "time": "t", "select": "r.n AS r, s.n AS s", "units": 2}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
