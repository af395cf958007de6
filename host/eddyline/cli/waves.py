"""Join a few rows on a simulated chain and write its waveforms: ``make waves``."""

import shlex
import sys
import tempfile
from pathlib import Path

from eddyline.cli.main import main

__all__ = ["waves"]

ROWS = 40
VIEWERS = "open {} with GTKWave or Surfer; the cores are under chain"


def waves(target: Path) -> int:
    """Write waveforms of a small join to a file; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        r, s, joined = (str(Path(folder) / name) for name in ("r.csv", "s.csv", "joined.csv"))
        Path(r).write_text("x\n" + "".join(f"{7 * i % 23}\n" for i in range(ROWS)))
        Path(s).write_text("a\n" + "".join(f"{5 * i % 19}\n" for i in range(ROWS)))
        step = [
            "join", r, s, "--on", "abs(r.x - s.a) <= 1", "--window", "rows:8",
            "--device", "sim:handshake?cores=2&comparators=2", "--trace", str(target),
            "--clock", "130MHz", "-o", joined,
        ]  # fmt: skip
        print(f"$ eddyline {shlex.join(step)}", flush=True)
        code = main(step)
    if not code:
        print(VIEWERS.format(target))
    return code


if __name__ == "__main__":
    sys.exit(waves(Path("waves.fst")))
