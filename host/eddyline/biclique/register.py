"""By which routings rows are stored, in whichever unit: noted by one unit for all of them.

A unit that no row reaches any more could not say so itself.
"""

import json

import numpy as np

from eddyline.clock import LATEST, later
from eddyline.plan import Window

__all__ = ["Register"]


class Register:
    """Labels of routings, each with the last watermark at which a row of theirs may be matched."""

    def __init__(self, text: str | None = None):
        self._until: dict[str, int] = json.loads(text or "{}")

    @property
    def text(self) -> str:
        return json.dumps(self._until)

    @property
    def labels(self) -> set[str]:
        return {*self._until}

    def note(self, label: str, latest: int, window: Window) -> None:
        """Note that rows up to a time are stored by a routing."""
        until = int(later(np.array([latest]), window.size)[0]) if window.kind == "time" else LATEST
        self._until[label] = max(until, self._until.get(label, until))

    def forget(self, watermark: int) -> None:
        """Let go of routings of whose rows none can be matched any more."""
        self._until = {one: until for one, until in self._until.items() if until >= watermark}
