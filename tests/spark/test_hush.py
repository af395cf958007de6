"""Spark's chatter is kept from the terminal, and nothing else."""

import os
import subprocess
import sys
import threading

from eddyline.spark.hush import hushed

CHATTER = [
    "WARNING: Using incubator modules: jdk.incubator.vector",
    'Setting Spark log level to "ERROR".',
    "26/11/18 08:31:44 WARN NativeCodeLoader: Unable to load native-hadoop library",
    "Starting Streaming TransformWithStateInPandas Python worker.",
    "",
    "Streaming TransformWithStateInPandas Python worker Completed execution of UDF: f.",
    "",
]
NEWS = ["26/11/18 08:31:44 ERROR TaskSetManager: Task 0 failed", "", "Caused by: a full disk"]


def test_only_chatter_is_left_out(capfd):
    before = set(threading.enumerate())
    said = "\n".join([*CHATTER, *NEWS, *CHATTER, "the end"])
    with hushed():
        os.write(2, b"of ourselves\n")
        speaker = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.stderr.write({said!r})"]
        )
    os.write(2, b"at once\n")
    assert speaker.wait() == 0
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=10)
        assert not thread.is_alive()
    lines = capfd.readouterr().err.splitlines()
    lines.remove("at once")  # goes past the thread, so it may come before the others
    assert lines == ["of ourselves", *NEWS, "the end"]
