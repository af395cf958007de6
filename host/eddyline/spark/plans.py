"""What a frame does, as Spark explains it."""

import re

from pyspark.sql import DataFrame

__all__ = ["ATTRIBUTES", "HARMLESS", "explained"]

ANALYZED = "== Analyzed Logical Plan =="
ATTRIBUTE = r"\w+#\d+L?(?:-T\d+ms)?"
ATTRIBUTES = rf"\[{ATTRIBUTE}(?:, {ATTRIBUTE})*\]"
# What leaves rows as they are, by the line that Spark writes of it.
HARMLESS = re.compile(rf"Project {ATTRIBUTES}|SubqueryAlias \w+|View \(`\w+`, {ATTRIBUTES}\)")


def explained(frame: DataFrame) -> list[str]:
    """Return the lines of a frame's plan, without those that draw a tree."""
    told = frame.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).first()
    assert told is not None
    plan = told[0].partition(ANALYZED)[2].partition("\n\n")[0]
    lines = plan.strip("\n").split("\n")[1:]  # the first names the columns
    return [line.lstrip(" +-").removeprefix("~") for line in lines]
