"""Compiled code under the user's cache directory, one directory per thing that was compiled."""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from eddyline.errors import MachineError

__all__ = ["cache_directory", "cached", "digest"]


def cache_directory(kind: str = "sim") -> Path:
    """Return where a kind is kept: ``$XDG_CACHE_HOME/eddyline/sim``, or ``~/.cache/...``."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "eddyline" / kind


def digest(*parts: str | bytes) -> str:
    """Return a name for everything that decides what a build gives."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(8, "little") + data)
    return hashed.hexdigest()[:32]


def cached(key: str, build: Callable[[Path], None], *, kind: str = "sim") -> Path:
    """Return the directory called ``key``, after building it if it is not there.

    ``build`` fills an empty directory next to the final place, which is renamed when complete:
    what is in the cache is whole. Processes that want the same thing at once wait for the one
    that builds; when that one dies, the system drops its lock and the next one builds.
    """
    base = cache_directory(kind)
    final = base / key
    if final.is_dir():
        return final
    with _space_and_rights(base):
        base.mkdir(parents=True, exist_ok=True)
        with _lock(base / f"{key}.lock") as locked:
            if final.is_dir():
                return final
            if locked:
                for left_behind in base.glob(f"{key}.tmp-*"):
                    shutil.rmtree(left_behind, ignore_errors=True)
            temporary = Path(tempfile.mkdtemp(prefix=f"{key}.tmp-", dir=base))
            try:
                build(temporary)
                try:
                    temporary.rename(final)
                except OSError:
                    # Without locks (some network file systems) another process may be first.
                    if not final.is_dir():
                        raise
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    return final


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold a lock, or go on without one where the file system has none."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            locked = True
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
                raise
            locked = False
        yield locked


@contextlib.contextmanager
def _space_and_rights(base: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"cannot write compiled code to {base}: {error.strerror or error};"
            " XDG_CACHE_HOME chooses another place"
        ) from error
