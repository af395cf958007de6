"""The wheel carries everything: installed into an empty environment, it joins two files."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
UV = Path(sys.executable).parent / "uv"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [UV, "build", "--quiet", "--wheel", "--out-dir", folder, REPOSITORY]
    subprocess.run(command, check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_every_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for folder in ("host/eddyline", "hw/eddyline_hw", "sim/eddyline_sim"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            assert str(path.relative_to((REPOSITORY / folder).parent)) in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "bench/")) for name in names)


def test_an_empty_environment_with_the_wheel_joins_two_files(wheel, tmp_path):
    environment = tmp_path / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin/python"
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, wheel], check=True)
    (tmp_path / "r.csv").write_text("x,name\n1,one\n5,five\n9,nine\n")
    (tmp_path / "s.csv").write_text("a\n4\n9\n")
    done = subprocess.run(
        [environment / "bin/eddyline", "join", "r.csv", "s.csv", "--on", "abs(r.x - s.a) <= 1"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ['"x","name","a"', '5,"five",4', '9,"nine",9']
    installed = subprocess.run(
        [python, "-c", "import eddyline, eddyline_hw, eddyline_sim; print(eddyline.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(environment) in installed.stdout, "not the repository's own copy"
