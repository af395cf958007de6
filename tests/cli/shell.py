"""Run the real command in a process of its own, as a person would."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

EDDYLINE = [sys.executable, "-m", "eddyline.cli.main"]


def eddyline(*args, cwd: Path | None = None, stdin: bytes | None = None):
    """Return the finished process, with text output."""
    done = subprocess.run(
        [*EDDYLINE, *map(str, args)], cwd=cwd, input=stdin, capture_output=True, timeout=900
    )
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in done.stderr, done.stderr
    return done


def write(path: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), path)
    return path
