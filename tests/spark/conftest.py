"""One Spark session for all tests of this folder."""

import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from eddyline.spark import session

QUIET = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = session("tests", master="local[2]", config=QUIET)
    yield running
    running.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests of one session in one process; those that start a Java of their own need not wait.

    What other libraries warn of is passed over.
    """
    for item in items:
        if "tests/spark/" in str(item.path):
            shared = "spark" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("spark" if shared else item.path.stem))
            item.add_marker(pytest.mark.filterwarnings("ignore"))
