"""A stage behind a join that fails when all is done, the first time. Workers import it."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext

__all__ = ["failing_once"]


def failing_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand over all rows, then fail in the first attempt: by then the joiner has gone on."""
    yield from batches
    if TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("this attempt was to fail")
