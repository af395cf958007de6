"""A line on a terminal that shows how far a join is."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from eddyline.io.source import Source
from eddyline.session import Session

__all__ = ["Line", "Notice", "Progress", "grouped"]

SECONDS = 0.2


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


class Line:
    """A line on stderr, if that is a terminal, that a thread keeps up to date.

    A thread, because a join may run for long without a single result.
    """

    def __init__(self, text: Callable[[], str]):
        self._text = text
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._redraw, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        if self._thread:
            self._thread.join()
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _redraw(self) -> None:
        while not self._done.wait(SECONDS):
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{self._text()[:width]}", end="", file=sys.stderr, flush=True)


class Progress(Line):
    """Show rows, rows per second and matches of a session."""

    def __init__(self, session: Session, sources: Sequence[Source]):
        super().__init__(lambda: self.line(time.perf_counter() - self._began))
        self._session = session
        self._sources = sources
        self._began = time.perf_counter()

    def line(self, seconds: float) -> str:
        totals = self._session.totals
        rows, read = totals.joined_rows, totals.r_rows + totals.s_rows
        parts = [source.progress() for source in self._sources]
        known = [part for part in parts if part is not None]
        bar = ""
        if known and len(known) == len(parts):
            share = sum(known) / len(known) * (rows / read if read else 0)
            filled = round(20 * share)
            bar = f"[{'#' * filled}{'.' * (20 - filled)}] {share:4.0%}  "
        return (
            f"{bar}{grouped(rows)} rows  {grouped(round(rows / max(seconds, 1e-9)))} rows/s  "
            f"{grouped(totals.pairs)} matches"
        )


class Notice:
    """Say on stderr what is being made ready: on a terminal one line that changes, else lines."""

    def show(self, text: str) -> None:
        if not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
            return
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
