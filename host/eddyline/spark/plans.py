"""What a frame does, as Spark explains it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

__all__ = ["ATTRIBUTES", "HARMLESS", "OURS", "explained", "may_wait", "waits"]

ANALYZED = "== Analyzed Logical Plan =="
ATTRIBUTE = r"\w+#\d+L?(?:-T\d+ms)?"
ATTRIBUTES = rf"\[{ATTRIBUTE}(?:, {ATTRIBUTE})*\]"
# What leaves rows as they are, by the line that Spark writes of it.
HARMLESS = re.compile(rf"Project {ATTRIBUTES}|SubqueryAlias \w+|View \(`\w+`, {ATTRIBUTES}\)")

FIELDS = "spark.sql.debug.maxToStringFields"
OURS = "eddyline"  # alias of what a stateful operator of ours gives
# What is written in Scala or Java, or in Python.
STATEFUL = {
    "TransformWithState": "transformWithState",
    "FlatMapGroupsWithState": "mapGroupsWithState or flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
}
WAITING = ("Aggregate ", "Distinct", "Join LeftOuter", "Join RightOuter", "Join FullOuter")


def explained(frame: DataFrame) -> list[str]:
    """Return the lines of a frame's plan, without those that draw a tree."""
    return [line for _, line in _tree(frame)]


def waits(frame: DataFrame) -> bool:
    """Say whether rows of a stream come when the watermark has passed them.

    Those of an aggregation do, and those of an outer join of streams that have met nothing.
    """
    tree = _tree(frame)
    return any(
        line.startswith(WAITING) and all(map(_streams, _children(tree, place)))
        for place, (_, line) in enumerate(tree)
    )


def may_wait(frame: DataFrame) -> str | None:
    """Return what a user has written that may keep rows until the watermark has passed them."""
    tree = _tree(frame)
    for (_, above), (_, line) in zip([(0, ""), *tree], tree, strict=False):
        for operator, name in STATEFUL.items():
            if line.startswith(operator) and above != f"SubqueryAlias {OURS}":
                return name
    return None


def _children(tree: list[tuple[int, str]], place: int) -> list[list[str]]:
    """Return the lines below each child of a line."""
    found: list[list[str]] = []
    for depth, line in tree[place + 1 :]:
        if depth <= tree[place][0]:
            break
        if depth == tree[place][0] + 1:
            found.append([])
        found[-1].append(line)
    return found


def _streams(lines: list[str]) -> bool:
    return any(line.startswith("StreamingRelation") for line in lines)


def _tree(frame: DataFrame) -> list[tuple[int, str]]:
    """Return the lines of a frame's plan, each with its depth."""
    spark = frame.sparkSession
    with _all_columns(spark):
        told = spark.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).first()
    assert told is not None
    plan = told[0].partition(ANALYZED)[2].partition("\n\n")[0]
    lines = plan.strip("\n").split("\n")[1:]  # the first names the columns
    bare = [line.lstrip(" +-:") for line in lines]
    return [
        ((len(line) - len(text)) // 3, text.removeprefix("~"))
        for line, text in zip(lines, bare, strict=True)
    ]


@contextmanager
def _all_columns(spark: SparkSession) -> Iterator[None]:
    """Let Spark name all columns in plans: usually it ends after 25 with "5 more fields"."""
    before = spark.conf.get(FIELDS, None)
    spark.conf.set(FIELDS, str((1 << 31) - 1))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(FIELDS)
        else:
            spark.conf.set(FIELDS, before)
