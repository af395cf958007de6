"""The process that owns a device. Every connection is a session with a plan of its own."""

import fcntl
import logging
import os
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from eddyline.device import Device, Results, Tuples
from eddyline.device.discovery import open_device
from eddyline.device.lease import lease
from eddyline.errors import DeviceError, EddylineError
from eddyline.plan import Plan
from eddyline.serve.wire import Channel, WireError

__all__ = ["Server"]

SOFTWARE = ("auto", "cpu", "reference")  # any number of processes may have one
PAUSE = 1  # seconds until connections are taken again, if one could not be
CREDENTIALS = struct.Struct("3i")

log = logging.getLogger(__name__)


class Server:
    """Serves a device at a socket file, which only this user can open.

    Raises
    ------
    DeviceError
        If another process serves there, or has the device.
    """

    def __init__(self, path: str, device: str, *, sessions: int = 64):
        self.path = Path(path)
        self.device = device
        self._sessions = threading.BoundedSemaphore(sessions)
        self._most = sessions

    def __enter__(self) -> Self:
        self._lock = open(f"{self.path}.lock", "a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "another"
            self._lock.close()
            raise DeviceError(
                f"process {owner} serves at {self.path} already: choose another --socket"
            ) from None
        try:
            if self.device.partition("?")[0] not in SOFTWARE:
                lease([self.device], owner=os.getpid())
            open_device(self._name)  # an unknown device is known now, not with the first session
            self._lock.truncate(0)
            self._lock.write(str(os.getpid()))
            self._lock.flush()
            self._listener = self._bound()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._listener.close()
        self.path.unlink(missing_ok=True)
        self._lock.close()

    def serve(self) -> None:
        """Take sessions for ever."""
        while True:
            try:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._session, args=(connection,), daemon=True).start()
            except (OSError, RuntimeError) as error:  # no files or threads left, until some end
                log.warning("a connection has to wait, or ends: %s", error)
                time.sleep(PAUSE)

    @property
    def _name(self) -> str:
        return self.device.partition("#")[0]

    def _bound(self) -> socket.socket:
        self.path.unlink(missing_ok=True)  # of a server that was killed: nobody holds the lock
        listener = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            listener.bind(str(self.path))
        except OSError as error:
            listener.close()
            raise DeviceError(f"cannot serve at {self.path}: {error}") from None
        finally:
            os.umask(mask)
        listener.listen()
        return listener

    def _session(self, connection: socket.socket) -> None:
        channel = Channel(connection)
        try:
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            process, user, _ = CREDENTIALS.unpack(raw)
            if user != os.getuid():
                log.warning("process %d of user %d was turned away", process, user)
            elif self._sessions.acquire(blocking=False):
                try:
                    _Session(channel, self._name).run()
                finally:
                    self._sessions.release()
            else:
                full = f"all {self._most} sessions of {self.device} are in use"
                channel.receive()
                channel.send({"error": f"{full}: use fewer units, or raise --sessions"})
        except (EOFError, OSError):
            pass  # whoever asked has ended
        except WireError as error:
            log.warning("a session ends: %s", error)
            with suppress(OSError):
                channel.send({"error": str(error)})
        finally:
            channel.close()


class _Session:
    def __init__(self, channel: Channel, device: str):
        self._channel = channel
        self._name = device
        self._device: Device | None = None

    def run(self) -> None:
        try:
            while True:
                message, arrays = self._channel.receive()
                try:
                    self._channel.send(*self._answer(message, arrays))
                except EddylineError as error:
                    self._channel.send({"error": str(error)})
        finally:
            if self._device:
                self._device.__exit__(None, None, None)

    def _answer(self, message: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict, list]:
        verb = message.get("do")
        if verb == "configure":
            try:
                self._plan = Plan.from_json(message["plan"])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise WireError(f"that is no plan: {error}") from None
            if self._device is None:
                self._device = open_device(self._name).__enter__()
            self._device.configure(self._plan)
            return {}, []
        if self._device is None:
            raise WireError(f"{verb!r} comes before a plan")
        if verb == "push":
            self._device.push(self._tuples(arrays))
            return {}, []
        if verb in ("pull", "flush"):
            return _told(self._device.pull() if verb == "pull" else self._device.flush())
        if verb == "counters":
            return {"counters": self._device.counters()}, []
        raise WireError(f"{verb!r} is nothing that a device does")

    def _tuples(self, arrays: list[np.ndarray]) -> Tuples:
        kinds = [np.dtype(np.uint8), np.dtype(self._plan.r.fields), np.dtype(self._plan.s.fields)]
        try:
            sides, r, s = (one.view(kind) for one, kind in zip(arrays, kinds, strict=True))
        except ValueError as error:
            raise WireError(f"those are no tuples of the plan: {error}") from None
        later = int(np.count_nonzero(sides))
        if sides.max(initial=0) > 1 or (len(sides) - later, later) != (len(r), len(s)):
            raise WireError(
                f"{len(sides)} tuples, {later} of them of S, come with {len(r)} and {len(s)}"
            )
        return Tuples(sides, r, s)


def _told(results: Results) -> tuple[dict, list]:
    return {"closed": results.closed}, [results.r_id, results.s_id, results.stars]
