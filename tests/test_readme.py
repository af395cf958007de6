"""The README is true: its Python runs, its options exist, its files are there."""

import contextlib
import io
import re
from pathlib import Path

from eddyline.cli.main import parser

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_example_prints_what_it_says():
    # The other one needs Spark: tests/spark/test_documents.py.
    code, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    expected = code.strip().splitlines()[-1].removeprefix("# ")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(code, {})
    assert said.getvalue().strip() == expected


def test_every_option_exists():
    known = parser().format_help()
    commands = parser()._subparsers._group_actions[0].choices
    known += "".join(command.format_help() for command in commands.values())
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", README)):
        assert option in known, option


def test_every_target_and_file_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z-]+)", README)) - {"and", "alone"}:
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE), target
    for name in set(re.findall(r"`([\w/]+\.py)`", README)):
        assert (ROOT / "host/eddyline" / name).exists() or (ROOT / name).exists(), name
    for folder in re.findall(r"^\| `([\w/]+/)` \|", README, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_the_excerpt_is_the_demos():
    golden = (ROOT / "tests/golden/demo.txt").read_text()
    for line in ("demo/r.parquet: 100 000 rows", "... 36876 rows"):
        assert line in golden
    assert "gave 36 876 pairs on cpu" in README
