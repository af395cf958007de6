"""The plumbing of a Spark join with an empty device: what is pushed is thrown away.

PanJoin measures its hold on Storm against just that (section V-C). What it found there went
nowhere; here pairs become rows, which is plumbing, too. So an empty device may answer with as many
pairs as a join would find, without having looked for them. Workers import this module, so the
folder of ``bench`` has to be on their path.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any
from unittest.mock import patch

import numpy as np

from eddyline.biclique.meeting import Pairs
from eddyline.device import Tuples
from eddyline.engine.part import Stores
from eddyline.spark import join
from eddyline.spark.leases import HeldUnit
from eddyline.spark.request import Request, make_request

__all__ = ["stream_join_on_nothing"]


PIECE = 1 << 16  # pairs in one answer


class _Nothing:
    """Joins no rows; where ``answers``, each of R meets about the one of S whose turn it is."""

    emptied = False
    lost_rows = 0

    def __init__(self, answers: bool):
        self._answers = answers
        self._random = np.random.default_rng(0)

    def load(self, tuples: Tuples) -> None:
        pass

    def join(self, tuples: Tuples, stores: Stores | None, *, more: bool = False) -> Iterator[Pairs]:
        ids = tuples.r["id"], tuples.s["id"]
        count = min(map(len, ids)) if self._answers else 0
        # Partners of rows that follow each other are anywhere in the window; within a 32nd of the
        # batch they are so near in time that all are in it.
        near = max(count // 32, 1)
        for begin in range(0, count, PIECE):
            places = np.arange(begin, min(begin + PIECE, count))
            partners = places + self._random.integers(-near, near, len(places))
            yield ids[0][places], ids[1][np.clip(partners, 0, count - 1)]

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class _Request(Request):
    answers: bool = False

    def unit(self, device: str | None = None) -> HeldUnit:
        unit = super().unit(device)
        unit._meeting.close()
        unit._meeting = _Nothing(self.answers)
        return unit


def stream_join_on_nothing(*sides: Any, answers: bool = False, **options: Any) -> Any:
    """Return ``stream_join`` whose units store, encode and push all rows to a device like that."""

    def made(*args: Any, **kwargs: Any) -> Request:
        request = make_request(*args, **kwargs)
        known = {one.name: getattr(request, one.name) for one in fields(request)}
        return _Request(**known, answers=answers)

    with patch.object(join, "make_request", made):
        return join.stream_join(*sides, **options)
