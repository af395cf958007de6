"""Results on their way from Python to Spark, which takes only so many bytes at once."""

from eddyline.errors import DataError

__all__ = ["Outgoing"]

# PySpark puts all rows of a call of transformWithState into one Arrow array of 32-bit offsets.
MOST = (1 << 31) - 1


class Outgoing:
    """Counts what is handed over together: of one unit, or of all whose timers have expired."""

    def __init__(self) -> None:
        self._bytes = 0

    def passed(self, payload: bytes) -> bytes:
        """Return the payload.

        Raises
        ------
        DataError
            If Spark cannot take it together with those before.
        """
        self._bytes += len(payload)
        if self._bytes > MOST:
            raise DataError(
                f"a unit has more than {MOST} bytes of results in one micro-batch, which Spark "
                "does not take from Python at once: let batches be smaller (the source's "
                "maxFilesPerTrigger, say), use more units, or select fewer columns. A batch that "
                "has begun comes again as it is, and more units may get it through; else begin "
                "with another checkpoint"
            )
        return payload
