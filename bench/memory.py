"""Memory while a long stream goes through a window of 1M rows, all the way from rows to rows."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

ROWS, WINDOW, BATCH = 100_000_000, 1 << 20, 1 << 16
SPAN = 2**31
PLACES = 10  # at which memory is looked at


def resident() -> int:
    """Return the bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(rows: int, window: int, batch: int = BATCH) -> Iterator[dict[str, float]]:
    """Join streams of so many rows together on a band with a partner each.

    Yields rows, pairs, seconds of the processor, bytes of the process and of the engine.
    """
    import eddyline
    from eddyline.device.cpu import CpuDevice

    schema = pa.schema({"value": pa.int32()})
    half = SPAN // window // 2
    read = 0

    def stream(seed: int) -> Iterator[pa.RecordBatch]:
        nonlocal read
        rng = np.random.default_rng(seed)
        for start in range(0, rows // 2, batch):
            count = min(batch, rows // 2 - start)
            read += count
            values = rng.integers(0, SPAN, count, dtype=np.int32)
            yield pa.record_batch({"value": values}, schema)

    device = CpuDevice(threads=1)
    result = eddyline.join(
        *(pa.RecordBatchReader.from_batches(schema, stream(seed)) for seed in (1, 2)),
        on=f"r.value BETWEEN s.value - {half} AND s.value + {half}",
        window=eddyline.rows(window),
        device=device,
    )
    pairs, looked = 0, 0
    began = time.process_time()
    for some in result:
        pairs += some.num_rows
        if read * PLACES // rows > looked and device._engine is not None:
            looked = read * PLACES // rows
            yield {
                "rows": read,
                "pairs": pairs,
                "seconds": time.process_time() - began,
                "resident": resident(),
                "engine": device.counters()["bytes"],
            }


def measure(rows: int = ROWS, window: int = WINDOW) -> Iterator[str]:
    # A process of its own: what was measured before must not have left memory behind.
    command = [sys.executable, "-m", "bench.memory", str(rows), str(window)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield "  M rows   M pairs  M rows/s     process     windows"
        for line in process.stdout:
            at = json.loads(line)
            yield (
                f"{at['rows'] / 1e6:8.1f}  {at['pairs'] / 1e6:8.1f}  "
                f"{at['rows'] / at['seconds'] / 1e6:8.2f}  "
                f"{at['resident'] / 2**20:8.0f} MiB  {at['engine'] / 2**20:6.0f} MiB"
            )


if __name__ == "__main__":
    for place in run(*map(int, sys.argv[1:])):
        print(json.dumps(place), flush=True)
