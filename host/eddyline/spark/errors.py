"""Errors in Spark's style, raised while a query is built and not in an executor's log."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException

from eddyline.errors import EddylineError, QueryError

__all__ = ["StreamJoinError", "in_sparks_style"]


class StreamJoinError(AnalysisException, QueryError):
    """A join that cannot be done as written.

    Both an ``AnalysisException``, which Spark users catch, and a ``QueryError``.
    """

    def __init__(self, condition: str, message: str):
        AnalysisException.__init__(self, message=message, errorClass=f"EDDYLINE.{condition}")

    def getSqlState(self) -> str:
        return "42000"  # a statement that is not right; Spark knows no state of our conditions


@contextmanager
def in_sparks_style(condition: str) -> Iterator[None]:
    """Turn our errors into Spark's."""
    try:
        yield
    except StreamJoinError:
        raise
    except EddylineError as error:
        raise StreamJoinError(condition, str(error)) from None
