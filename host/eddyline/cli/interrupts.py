"""Ctrl-C only where it can do no harm: while waiting for results, never while writing them."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

__all__ = ["Interrupts"]


class Interrupts:
    """Take over SIGINT. A signal that comes at a bad moment is remembered until a good one.

    An exception raised inside a writer would leave half a row group, and a file without a footer.
    """

    def __init__(self) -> None:
        self._pending = False
        self._welcome = False
        self._before: object = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others get no signals
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def _note(self, *_: object) -> None:
        self._pending = True
        if self._welcome:
            raise KeyboardInterrupt

    @contextmanager
    def welcome(self) -> Iterator[None]:
        """Let Ctrl-C end this block.

        A signal may strike inside a lock, whose release then fails in place of the interrupt:
        what goes wrong after Ctrl-C is Ctrl-C.
        """
        if self._pending:
            raise KeyboardInterrupt
        self._welcome = True
        try:
            yield
        except Exception as error:
            if self._pending:
                raise KeyboardInterrupt from error
            raise
        finally:
            self._welcome = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within a block that Ctrl-C may end, finish this part first."""
        before, self._welcome = self._welcome, False
        try:
            yield
        finally:
            self._welcome = before
        if self._pending and before:
            raise KeyboardInterrupt
