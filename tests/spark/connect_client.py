"""What a Spark Connect client does: run in a process of its own, prints what it found as JSON."""

import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

from pyspark.sql import SparkSession  # noqa: E402

from eddyline.spark import stream_join  # noqa: E402
from tests.spark.streams import Rows, finished, pairs, stream  # noqa: E402

# The last row of R is late, though it has a partner: the file before has come further.
R, S = Rows.random(1, 200), Rows.random(2, 200)
R.t[-1], R.x[-1] = S.t[0], S.x[0]


def main(folder: Path) -> None:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",  # the default listens everywhere
    }
    spark = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
    on, ids = "abs(r.x - s.x) <= 2", "r.n AS r, s.n AS s"
    near = {"on": on, "window": "time:3s", "time": "t", "select": ids}
    tables = [rows.frame(spark) for rows in (R, S)]
    for name, rows in (("r", R), ("s", S)):
        rows.write(folder / name, 2)
    streams = [stream(spark, folder / name) for name in "rs"]
    once = {**near, "select": "r.name, s.name AS other", "distinct": "unbounded"}
    joined = stream_join(*streams, **once, late="late")
    found = {
        "tables": pairs(stream_join(*tables, **near)),
        "distinct tables": pairs(stream_join(*tables, **once)),
        "streams": finished(joined, folder / "streams"),
        "static": finished(stream_join(streams[0], tables[1], on, select=ids), folder / "static"),
    }
    found["client"] = [type(joined).__module__]
    sys.stdout.write("\n" + json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
