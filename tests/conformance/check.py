"""Compare what a device makes of a case with the definition."""

import numpy as np

from eddyline.device import Results, TakesLate, Tuples
from eddyline.device.discovery import open_device
from eddyline.errors import DeviceError
from eddyline.io.source import ArrowSource
from eddyline.reference import STAR
from eddyline.session import Session
from tests.conformance.cases import Case


class Refused(Exception):
    """The device cannot do a plan, and has said so when it was configured."""


class Recorder:
    """A device that notes where the stars were."""

    def __init__(self, device):
        self._device = device
        self.name = device.name
        self.stars: list[int] = []
        self._pairs = 0
        self.closed = 0

    def configure(self, plan):
        try:
            self._device.configure(plan)
        except DeviceError as error:
            raise Refused(str(error)) from None

    def accept_late(self):
        return isinstance(self._device, TakesLate) and self._device.accept_late()

    def watermark(self, r, s):
        self._device.watermark(r, s)

    def push(self, tuples: Tuples):
        self._device.push(tuples)

    def pull(self) -> Results:
        return self._note(self._device.pull())

    def flush(self) -> Results:
        return self._note(self._device.flush())

    def counters(self):
        return self._device.counters()

    def _note(self, results: Results) -> Results:
        assert np.all(np.diff(results.stars) >= 0)
        assert results.closed >= self.closed
        self.closed = results.closed
        self.stars += (results.stars + self._pairs).tolist()
        self._pairs += len(results)
        return results


def run(spec: str, case: Case) -> tuple[list[list[tuple[int, int]]], Session]:
    """Return the pairs between stars, in order, and the session."""
    with open_device(spec) as device:
        recorder = Recorder(device)
        sources = [
            [ArrowSource(_in_pieces(table, case.pieces), name=side) for table in case.tables(side)]
            for side in "rs"
        ]
        session = Session(case.query, *sources, recorder, batch=case.batch)
        pairs = [
            pair
            for batch in session
            for pair in zip(batch["rid"].to_pylist(), batch["sid"].to_pylist(), strict=True)
        ]
        again = device.flush()
        assert again.nothing, "a second flush does nothing"
    assert session.totals.pairs == len(pairs)
    cuts = [0, *recorder.stars]
    segments = [pairs[a:b] for a, b in zip(cuts, recorder.stars, strict=False)]
    assert sum(map(len, segments)) == len(pairs), "results after the last star"
    return segments, session


def _in_pieces(table, size):
    import pyarrow as pa

    return pa.Table.from_batches(table.to_batches(max_chunksize=size), table.schema)


def check(spec: str, case: Case) -> None:
    found, session = run(spec, case)
    expected, late = case.expected()
    assert session.totals.late_rows == late
    pairs = [item for item in expected if item != STAR]
    rank = {pair: place for place, pair in enumerate(pairs)}
    flat = [pair for segment in found for pair in segment]
    assert sorted(flat) == sorted(pairs)
    assert len(rank) == len(pairs), "the definition itself repeats a pair"
    segments = _split(expected)
    match case.order.kind, case.order.every:
        case "inner", 0:
            assert found == segments
        case "inner", _:
            # What is left open between stars depends on the device.
            settled = [pair for segment in found for pair in sorted(segment, key=rank.__getitem__)]
            assert settled == pairs
        case "outer", _:
            assert [set(segment) for segment in found] == [set(segment) for segment in segments]


def _split(items: list) -> list[list]:
    segments: list[list] = [[]]
    for item in items:
        if item == STAR:
            segments.append([])
        else:
            segments[-1].append(item)
    assert not segments[-1]
    return segments[:-1]
