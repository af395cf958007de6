"""The plumbing of a Spark join with an empty device: what is pushed is thrown away.

PanJoin measures its hold on Storm against just that (section V-C). Workers import this module, so
the folder of ``bench`` has to be on their path.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any
from unittest.mock import patch

from eddyline.biclique.meeting import Pairs
from eddyline.device import Tuples
from eddyline.engine.part import Stores
from eddyline.spark import join
from eddyline.spark.leases import HeldUnit
from eddyline.spark.request import Request, make_request

__all__ = ["stream_join_on_nothing"]


class _Nothing:
    emptied = False

    def load(self, tuples: Tuples) -> None:
        pass

    def join(self, tuples: Tuples, stores: Stores | None) -> Iterator[Pairs]:
        return iter(())

    def close(self) -> None:
        pass


class _Request(Request):
    def unit(self, device: str | None = None) -> HeldUnit:
        unit = super().unit(device)
        unit._meeting.close()
        unit._meeting = _Nothing()
        return unit


def stream_join_on_nothing(*sides: Any, **options: Any) -> Any:
    """Return ``stream_join`` whose units store, encode and push all rows to a device like that."""

    def made(*args: Any, **kwargs: Any) -> Request:
        request = make_request(*args, **kwargs)
        return _Request(**{one.name: getattr(request, one.name) for one in fields(request)})

    with patch.object(join, "make_request", made):
        return join.stream_join(*sides, **options)
