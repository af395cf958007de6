"""A streaming join to be killed: python -m tests.spark.killed_job FOLDER MASTER DEVICE UNITS."""

import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

from eddyline.spark import session, stream_join  # noqa: E402
from tests.spark.conftest import QUIET  # noqa: E402
from tests.spark.streams import stream  # noqa: E402

ON, WINDOW = "abs(r.x - s.x) <= 2", "time:9s"


def main(folder: Path, master: str, device: str, units: int) -> None:
    spark = session("killed", master=master, config={**QUIET, "spark.task.maxFailures": "8"})
    sides = (stream(spark, folder / name) for name in "rs")
    joined = stream_join(
        *sides, ON, window=WINDOW, time="t", select="r.n AS r, s.n AS s", device=device, units=units
    )
    writer = joined.writeStream.format("parquet").option("path", str(folder / "out" / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "out" / "state"))
    writer.trigger(availableNow=True).start().awaitTermination()
    (folder / "done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
