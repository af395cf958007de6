"""What a Spark Connect client does: run in a process of its own, prints what it found as JSON."""

import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

from pyspark.sql import SparkSession  # noqa: E402

from eddyline.spark import stream_join  # noqa: E402
from tests.spark.streams import Rows, finished, pairs, stream  # noqa: E402


def main(folder: Path) -> None:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",  # the default listens everywhere
    }
    spark = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
    r, s = Rows.random(1, 200), Rows.random(2, 200)
    on, ids = "abs(r.x - s.x) <= 2", "r.n AS r, s.n AS s"
    tables = [rows.frame(spark) for rows in (r, s)]
    found = {"tables": pairs(stream_join(*tables, on, window="time:3s", time="t", select=ids))}
    for name, rows in (("r", r), ("s", s)):
        rows.write(folder / name, 2)
    joined = stream_join(
        *(stream(spark, folder / name) for name in "rs"), on, window="time:3s", time="t", select=ids
    )
    found["streams"] = finished(joined, folder / "out")
    found["client"] = [type(joined).__module__]
    sys.stdout.write("\n" + json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
