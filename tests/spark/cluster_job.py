"""A job on a small cluster whose executors each have a device: FOLDER as argument."""

import json
import os
import signal
import sys
import time
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

    def addresses() -> list[tuple[list[str], int]]:
        """Return the devices that tasks have, and the processes of their executors."""

        def address(_):
            from pyspark import TaskContext

            daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            return [(TaskContext.get().resources()["fpga"].addresses, int(daemon[1]))]

        return context.parallelize(range(8), 8).mapPartitions(address).collect()

    r, s = Rows.random(1, 100), Rows.random(2, 100)
    for name, rows in (("r", r), ("s", s)):
        rows.write(folder / name, 2)

    def joined(out: str) -> list:
        pairs = stream_join(
            *(stream(spark, folder / name) for name in "rs"), "r.x = s.x", window="time:9s",
            time="t", select="r.n AS r, s.n AS s", units=2,
        )  # fmt: skip
        return finished(pairs, folder / out)

    found = addresses()
    told = {"addresses": found, "pairs": joined("out")}
    # Another executor takes the place of one that is killed, and gets its device.
    killed = found[0][1]
    os.kill(killed, signal.SIGKILL)
    again = []
    while len({executor for _, executor in again} - {killed}) < 2:
        time.sleep(0.2)
        again = addresses()
    told |= {"killed": killed, "addresses_again": again, "pairs_again": joined("out-again")}
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
