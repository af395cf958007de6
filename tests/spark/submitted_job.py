"""What a user submits: a session as Spark makes it, a join of two streams. FOLDER as argument."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from eddyline.spark import session, stream_join
from tests.spark.streams import finished, stream

PARTITIONS = "spark.sql.shuffle.partitions"


def joined(spark: SparkSession, folder: Path) -> list[tuple]:
    sides = (stream(spark, folder / name) for name in "rs")
    on, ids = "abs(r.x - s.x) <= 2", "r.n AS r, s.n AS s"
    near = stream_join(*sides, on, window="time:3s", time="t", select=ids)
    return finished(near, folder / "out")


def main(folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    told = {"pairs": joined(spark, folder)}
    again = session()
    told["running"] = [again is spark, again.conf.get(PARTITIONS)]
    spark.stop()
    anew = session()
    told["given"] = [anew.sparkContext.master, anew.conf.get(PARTITIONS)]
    told["default"] = anew.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    anew.stop()
    asked = session(master="local[2]", config={PARTITIONS: 5})
    told["asked"] = [asked.sparkContext.master, asked.conf.get(PARTITIONS)]
    asked.stop()
    (folder / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
