"""How far a benchmark is, on stderr."""

import sys
import time
from typing import Self

from eddyline.cli.progress import Notice

__all__ = ["Steps"]

WIDTH = 20


class Steps:
    """Show a bar, the step under way and what it is doing: on a terminal only one line."""

    def __init__(self) -> None:
        self._notice = Notice()
        self._done = self._total = 0
        self._name = ""

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._notice.clear()

    def expect(self, total: int) -> None:
        """Say how many steps there will be."""
        self._total = total

    def begin(self, name: str) -> None:
        """Begin the next step."""
        self._name = name
        self._done += 1
        self._notice.show(self._line(""))

    def detail(self, text: str) -> None:
        """Say what the step under way is doing; only where a line can be overwritten."""
        if sys.stderr.isatty():
            self._notice.show(self._line(f": {text}"))

    def _line(self, detail: str) -> str:
        before = max(self._done - 1, 0)
        filled = WIDTH * before // max(self._total, 1)
        seconds = time.perf_counter() - self._began
        bar = f"[{'#' * filled}{'.' * (WIDTH - filled)}]"
        return f"{bar} {self._done}/{self._total} {seconds:3.0f} s  {self._name}{detail}"
