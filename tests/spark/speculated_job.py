"""A join on a cluster that copies tasks which lag: MASTER and FOLDER as arguments."""

import json
import sys
import warnings
from functools import partial
from pathlib import Path

warnings.filterwarnings("ignore")

from eddyline.spark import session, stream_join  # noqa: E402
from tests.spark.conftest import QUIET  # noqa: E402
from tests.spark.lagging import lagging_once  # noqa: E402
from tests.spark.streams import Rows, finished, stream  # noqa: E402

R, S = Rows.random(1, 200), Rows.random(2, 200)
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.executor.memory": "512m",
}


def main(master: str, folder: Path) -> None:
    spark = session("speculated", master=master, config={**QUIET, **EAGER})
    spark.conf.set("spark.eddyline.metrics", str(folder / "metrics"))
    for name, rows in (("r", R), ("s", S)):
        rows.write(folder / name, 4)
    joined = stream_join(
        *(stream(spark, folder / name) for name in "rs"), "r.x = s.x", window="time:9s",
        time="t", select="r.n AS r, s.n AS s", units=2, device="cpu",
    )  # fmt: skip
    lagging = joined.mapInArrow(partial(lagging_once, told=folder), joined.schema)
    (folder / "told.json").write_text(json.dumps(finished(lagging, folder / "out")))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
