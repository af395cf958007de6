"""Two small streams for tests that are about something else."""

import pytest

from tests.cli.shell import write


@pytest.fixture
def files(tmp_path):
    r = write(tmp_path / "r.parquet", x=[1, 2, 3], name=["a", "b", "c"], ts=[1, 2, 3])
    s = write(tmp_path / "s.parquet", a=[1, 2, 3], ts=[1, 2, 3])
    return str(r), str(s)
