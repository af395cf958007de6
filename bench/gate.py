"""The time gate against ``heapq.merge``, eight physical streams."""

import heapq
from collections.abc import Iterator

import numpy as np

from bench.clock import cpu_seconds
from eddyline.gate import ENDED, Stream, TimeGate

STREAMS, ROWS, BATCH = 8, 50_000, 4_096


def measure() -> Iterator[str]:
    rng = np.random.default_rng(1)
    times = [np.cumsum(rng.integers(0, 20, ROWS)) for _ in range(STREAMS)]
    streams = [Stream("rs"[i % 2], i // 2) for i in range(STREAMS)]

    def ours() -> None:
        gate = TimeGate(streams)
        position = dict.fromkeys(streams, 0)
        while (stream := gate.lagging) is not None:
            part = times[streams.index(stream)][position[stream] : position[stream] + BATCH]
            if len(part):
                gate.add(stream, part)
            else:
                gate.heartbeat(stream, ENDED)
            position[stream] += BATCH
            gate.take()

    def heap() -> None:
        lists = [[(t, i, p) for p, t in enumerate(one.tolist())] for i, one in enumerate(times)]
        for _ in heapq.merge(*lists):
            pass

    mine, peer = cpu_seconds(ours), cpu_seconds(heap)
    yield f"{peer / mine:.1f} x heapq.merge ({STREAMS * ROWS / mine / 1e6:.1f} M rows/s)"
