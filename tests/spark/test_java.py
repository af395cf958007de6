"""A Java that is new enough is taken as it is; otherwise the one of the packages."""

import os
import subprocess
from pathlib import Path

import pytest

from eddyline.spark.java import find_java


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    (tmp_path / "java" / "bin").mkdir(parents=True)
    return tmp_path / "java"


def says(home: Path, version: str) -> None:
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.9", "21", "25-ea"])
def test_a_java_that_is_new_enough_stays(home, version):
    says(home, version)
    find_java()
    assert os.environ["JAVA_HOME"] == str(home)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "none", None])
def test_an_old_or_missing_java_gives_way_to_the_packaged_one(home, version):
    if version:
        says(home, version)
    find_java()
    packaged = Path(os.environ["JAVA_HOME"])
    assert packaged != home
    flags = ["--add-modules=jdk.incubator.vector", "-version"]
    told = subprocess.run([packaged / "bin" / "java", *flags], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
