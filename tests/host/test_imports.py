"""Spark is optional: nothing but its own folder imports it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPARK = ROOT / "host" / "eddyline" / "spark"


def imported(source: str) -> Iterator[str]:
    """Yield the modules that a source imports, anywhere, but not those for types alone."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
        waiting += ast.iter_child_nodes(node)


def of_spark(source: str) -> bool:
    return any(name.partition(".")[0] in ("pyspark", "py4j") for name in imported(source))


def test_pyspark_is_imported_in_one_folder_only():
    files = [file for top in ("host", "hw", "sim") for file in (ROOT / top).rglob("*.py")]
    found = {file for file in files if of_spark(file.read_text())}
    assert {file for file in found if not file.is_relative_to(SPARK)} == set()
    assert SPARK / "join.py" in found


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import pyspark.sql as sql", True),
        ("def f():\n    from pyspark import TaskContext", True),
        ("if TYPE_CHECKING:\n    import pyspark\nelse:\n    import py4j", True),
        ("if TYPE_CHECKING:\n    from pyspark.sql import DataFrame", False),
        ("import pysparkling\n'import pyspark'", False),
    ],
)
def test_imports_are_found_wherever_they_are(source, told):
    assert of_spark(source) == told
