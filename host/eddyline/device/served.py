"""A device that another process owns: ``unix:/run/user/1000/eddyline.sock``."""

import socket
from typing import Any, Self

import numpy as np

from eddyline.device import Counters, Results, Tuples
from eddyline.errors import DeviceAbsent, DeviceError
from eddyline.plan import Plan
from eddyline.serve.wire import MOST_SHARED, Channel, WireError

__all__ = ["ServedDevice"]

TOGETHER = MOST_SHARED // 4096  # tuples of a message; records are far smaller than 4096 bytes


class ServedDevice:
    """A session with 'eddyline serve'."""

    name = "unix"

    def __init__(self, path: str):
        self._path = path
        self._error: str | None = None  # what the server said last, if that was an error

    def __enter__(self) -> Self:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._path)
        except OSError as error:
            connection.close()
            raise DeviceAbsent(
                f"nobody serves a device at {self._path} ({error}): start one with "
                f"eddyline serve DEVICE --socket {self._path}"
            ) from None
        self._channel = Channel(connection)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._channel.close()

    def configure(self, plan: Plan) -> None:
        self._ask({"do": "configure", "plan": plan.to_json()})

    def push(self, tuples: Tuples) -> None:
        while len(tuples):
            some, tuples = tuples.cut(TOGETHER)
            self._ask({"do": "push"}, [some.sides.astype(np.uint8), some.r, some.s])

    def pull(self) -> Results:
        return self._results("pull")

    def flush(self) -> Results:
        return self._results("flush")

    def counters(self) -> Counters:
        return self._ask({"do": "counters"})[0]["counters"]

    def _results(self, verb: str) -> Results:
        told, (r_id, s_id, stars) = self._ask({"do": verb})
        return Results(
            r_id.view(np.uint32), s_id.view(np.uint32), stars.view(np.int64), told["closed"]
        )

    def _ask(
        self, message: dict[str, Any], arrays: list[np.ndarray] | None = None
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        try:
            self._channel.send(message, arrays or [])
            told, answered = self._channel.receive()
        except (OSError, EOFError):
            why = self._error or (
                "the process that served the device has ended: start it again with "
                f"eddyline serve DEVICE --socket {self._path}"
            )
            raise DeviceError(f"{self._path}: {why}") from None
        except WireError as error:
            raise DeviceError(f"{self._path}: {error}") from None
        self._error = told.get("error")
        if self._error:
            raise DeviceError(f"{self._path}: {self._error}")
        return told, answered
