"""What ``spark.eddyline.*`` says, and what holds where it says nothing."""

from typing import TYPE_CHECKING

from eddyline.spark.errors import StreamJoinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["cased", "number", "text"]

PREFIX = "spark.eddyline."


def text(spark: "SparkSession", name: str, default: str) -> str:
    return spark.conf.get(PREFIX + name, default) or default


def number(spark: "SparkSession", name: str, default: int) -> int:
    """Return a setting that is a number from 1 up."""
    value = text(spark, name, str(default))
    if not value.isdecimal() or int(value) < 1:
        raise StreamJoinError("SETTING", f"{PREFIX}{name} is {value!r}: write a number from 1 up")
    return int(value)


def cased(spark: "SparkSession") -> bool:
    """Say whether names of columns that differ only in case are different ones to Spark."""
    return spark.conf.get("spark.sql.caseSensitive", "false") == "true"
