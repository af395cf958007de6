"""A job on a small cluster whose executors each have a device: FOLDER as argument."""

import json
import os
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

from eddyline.spark import session, stream_join  # noqa: E402
from tests.spark.conftest import QUIET  # noqa: E402
from tests.spark.streams import Rows, finished, stream  # noqa: E402


def main(folder: Path) -> None:
    script = Path(sys.executable).parent / "eddyline-fpga-discovery"
    resources = {
        "spark.worker.resource.fpga.amount": "1",
        "spark.worker.resource.fpga.discoveryScript": str(script),
        "spark.executor.resource.fpga.amount": "1",
        "spark.task.resource.fpga.amount": "1",
        "spark.eddyline.device": "fpga",
    }
    spark = session("cluster", master="local-cluster[2,1,1024]", config={**QUIET, **resources})
    context = spark.sparkContext

    def address(_):
        from pyspark import TaskContext

        return [(TaskContext.get().resources()["fpga"].addresses, os.getppid())]

    found = context.parallelize(range(8), 8).mapPartitions(address).collect()
    r, s = Rows.random(1, 100), Rows.random(2, 100)
    for name, rows in (("r", r), ("s", s)):
        rows.write(folder / name, 2)
    joined = stream_join(
        *(stream(spark, folder / name) for name in "rs"), "r.x = s.x", window="time:9s",
        time="t", select="r.n AS r, s.n AS s", units=2,
    )  # fmt: skip
    told = {"addresses": found, "pairs": finished(joined, folder / "out")}
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
