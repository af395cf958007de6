"""A Spark session that works where nothing is set up."""

import os
import sys
import warnings
from typing import Any

from pyspark.sql import SparkSession

from eddyline.spark.java import find_java

__all__ = ["ROCKSDB", "session"]

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(
    name: str = "eddyline", *, master: str = "local[*]", config: dict[str, Any] | None = None
) -> SparkSession:
    """Return a session: with a Java, this Python in its workers, quiet, and state in RocksDB.

    What ``config`` says goes before. A session that runs already is returned as it is.
    """
    find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    settings = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        **(config or {}),
    }
    return SparkSession.builder.appName(name).master(master).config(map=settings).getOrCreate()
