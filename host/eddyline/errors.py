"""Errors raised by eddyline. Catching ``EddylineError`` catches them all.

Each class is a situation the caller can act on and carries the exit code of the command line.
"""

__all__ = [
    "DataError", "DeviceAbsent", "DeviceError", "EddylineError", "MachineError", "OutOfOrder",
    "QueryError",
]  # fmt: skip


class EddylineError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 1


class DeviceError(EddylineError):
    """A device is missing, refuses a plan, or stopped answering."""

    exit_code = 1


class DeviceAbsent(DeviceError):
    """A device cannot be reached from this machine; others may have it."""


class QueryError(EddylineError):
    """The query cannot be understood, or asks for something that has no meaning."""

    exit_code = 2


class MachineError(EddylineError):
    """The machine lacks something: a tool, disk space, a writable directory."""

    exit_code = 3


class DataError(EddylineError):
    """The input is missing, malformed or out of order."""

    exit_code = 4


class OutOfOrder(DataError):
    """A timestamp runs backwards within one physical stream.

    ``row`` is its position in the stream, ``time`` and ``after`` are ticks of the join's clock.
    """

    def __init__(self, row: int, time: int, after: int):
        super().__init__(f"row {row}: time {time} runs backwards after {after}")
        self.row = row
        self.time = time
        self.after = after
