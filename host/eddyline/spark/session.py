"""A Spark session that works where nothing is set up."""

import contextlib
import os
import sys
import warnings
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from eddyline.errors import MachineError
from eddyline.spark.errors import StreamJoinError
from eddyline.spark.hush import hushed
from eddyline.spark.java import find_java

__all__ = ["ROCKSDB", "keep_state_in_rocksdb", "session"]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BAR = "spark.ui.showConsoleProgress"
DEFAULTS = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    BAR: "false",
    "spark.sql.shuffle.partitions": "4",
    PROVIDER: ROCKSDB,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


def session(
    name: str | None = None, *, master: str | None = None, config: dict[str, Any] | None = None
) -> SparkSession:
    """Return a session: with a Java, this Python in its workers, quiet, and state in RocksDB.

    That is for what nobody has set: what ``spark-submit`` was given or ``spark-defaults.conf`` says
    goes before, and the arguments go before all. A session that runs already is returned as it is,
    with nothing set but ``config``.

    Raises
    ------
    MachineError
        If none runs, and this PySpark is only a client of Spark Connect.
    """
    asked: dict[str, Any] = {key: str(value) for key, value in (config or {}).items()}
    with contextlib.suppress(PySparkRuntimeError):  # none runs
        running = SparkSession.active()
        return SparkSession.builder.config(map=asked).getOrCreate() if asked else running
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError:
        raise MachineError(
            "this PySpark starts no Spark, it is a client of Spark Connect: make a session with "
            'SparkSession.builder.remote("sc://…").getOrCreate()'
        ) from None
    find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if name:
        asked["spark.app.name"] = name
    if master:
        asked["spark.master"] = master
    # Spark itself turns the bar on for a Python that it has not started, unless told here.
    start = SparkConf(loadDefaults=False).setAll(list({BAR: DEFAULTS[BAR], **asked}.items()))
    bar = asked.get(BAR, DEFAULTS[BAR]) != "false"  # is drawn without ends of lines
    with contextlib.nullcontext() if bar else hushed():
        # What was given is known to Java alone, which takes it from the command line and files.
        SparkContext._ensure_initialized(conf=start)
        settings = SparkConf()
        for key, value in DEFAULTS.items():
            settings.setIfMissing(key, value)
        settings.setAll(list(asked.items()))
        return SparkSession.builder.config(conf=settings).getOrCreate()


def keep_state_in_rocksdb(spark: SparkSession) -> None:
    """Let streams that are started from now on keep state where ``transformWithState`` needs it.

    Raises
    ------
    StreamJoinError
        If something else was chosen.
    """
    chosen = spark.conf.getAll.get(PROVIDER)
    if chosen is None:
        spark.conf.set(PROVIDER, ROCKSDB)
    elif chosen != ROCKSDB:
        raise StreamJoinError(
            "STATE_STORE",
            f"{PROVIDER} is {chosen}, and Spark joins two streams in Python with state in RocksDB "
            f"only: unset it, or set it to {ROCKSDB}",
        )
