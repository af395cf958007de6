"""Plans: immutable, exact in JSON, named by their content."""

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given

from eddyline.cli.explain import describe
from eddyline.plan import All, Any_, Compare, Order, Plan, bands
from eddyline.query import Query
from eddyline.query.window import rows
from tests.host.predicates import PREDICATES, SCHEMA

R = pa.schema([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.float32())])
S = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.float32())])
BAND = "r.x BETWEEN s.a-10 AND s.a+10 AND r.y BETWEEN s.b-10 AND s.b+10"


def plan(on: str) -> Plan:
    return Query(R, S, on, rows(100), rows(200)).plan


@given(predicate=PREDICATES)
def test_json_and_back(predicate):
    lowered = Query(SCHEMA, SCHEMA, predicate.ours, rows(1), rows(1)).plan
    again = Plan.from_json(lowered.to_json())
    assert again == lowered
    assert again.digest == lowered.digest


def test_the_digest_names_the_content():
    assert plan(BAND).digest == plan(BAND).digest
    assert plan(BAND).digest != plan(BAND.replace("10", "11")).digest
    assert plan("r.x = s.a").digest != plan("r.x <> s.a").digest


def test_a_plan_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan(BAND).id_bits = 16


def test_another_version_is_refused():
    text = plan(BAND).to_json().replace('"version":1', '"version":99')
    with pytest.raises(ValueError, match="plan version 99 is not 1; lower the query again"):
        Plan.from_json(text)


def test_a_band_without_width_is_an_equality():
    equal = plan("r.x = s.a").predicate
    assert plan("r.x BETWEEN s.a AND s.a").predicate == equal
    assert plan("abs(r.x - s.a) <= 0").predicate == equal
    assert plan("r.x >= s.a AND r.x <= s.b").predicate != equal


def test_equal_columns_share_a_word_and_one_sided_conditions_become_flags():
    lowered = plan("r.x = s.a AND r.x <= s.a AND r.x > 3 AND r.y < 2 AND s.b IN (1, 2)")
    assert [word.text for word in lowered.r.words] == ["x"]
    assert [word.text for word in lowered.s.words] == ["a"]
    assert lowered.r.flags == ("r.x > 3 AND r.y < 2",)
    assert lowered.s.flags == ("s.b = 1 OR s.b = 2",)
    assert [word.optional for word in lowered.r.words] == [False], "the column has no NULLs"


@pytest.mark.parametrize(
    "on",
    [
        "r.x BETWEEN s.a - 5 AND s.a + 5",
        "s.a BETWEEN r.x - 5 AND r.x + 5",
        "abs(r.x - s.a) <= 5",
        "r.x - s.a <= 5 AND s.a - r.x <= 5",
        "r.x + 5 >= s.a AND s.a + 5 >= r.x",
    ],
)
def test_every_way_to_write_a_band_is_the_same_band(on):
    lowered = plan(on)
    (pair,), rest = bands(lowered.predicate.parts)
    assert [one.op for one in pair] == ["ge", "le"]
    assert not rest
    assert len(lowered.r.words) == 1
    assert len(lowered.s.words) == 2


def test_constants_fold_away():
    assert plan("TRUE").predicate == All(())
    assert plan("r.x = s.a AND FALSE").predicate == Any_(())
    assert plan("r.x = s.a OR 1 > 2").predicate == Compare(0, "eq", 0)
    assert plan("r.x = NULL").predicate == Any_(())


def test_explain_tells_what_matters():
    text = "\n".join(describe(Query(R, S, BAND, rows(1000), rows(2000))))
    for part in (
        "tuple s     132 bits: 4 words, 0 flags",
        "at least a - 10, as int32, may be invalid",
        "comparators 4 of 32 bits",
        "engine      grid, two-dimensional band",
        "index       r.w0 (x) between s.w0 and s.w1 and r.w1 (y) between s.w2 and s.w3\n",
        "window r    rows:1000",
        "at 13 bytes per tuple",
        "rows are taken alternately",
    ):
        assert part in text
    ordered = Query(R, S, BAND, rows(1000), rows(2000), order=Order("inner"))
    assert "s.w1 in strips and r.w1 (y) between s.w2 and s.w3; 2 more" in "\n".join(
        describe(ordered)
    )
    several = "\n".join(describe(Query(R, S, "r.x <> s.a OR r.y = s.b", rows(1), rows(1))))
    assert "index       r.w0 (x) <> s.w0 (a)\n            r.w1 (y) = s.w1 (b); 1 more" in several
    forced = "\n".join(describe(Query(R, S, "r.x <> s.a", rows(1), rows(1)), "rap"))
    assert "engine      rap, asked for; inequalities are looked up in bisort" in forced
    none = "\n".join(describe(Query(R, S, "r.x > 1", rows(1), rows(1))))
    assert "engine      nested, no index serves this predicate: every pair is compared" in none


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("eddyline.plan", ["numpy", "pyarrow", "numba", "sqlglot", "amaranth", "pyspark"]),
        ("eddyline.device.cpu", ["amaranth", "pyspark", "pyopencl", "cocotb"]),
        ("eddyline_hw.layouts", ["numpy", "pyarrow", "numba", "sqlglot", "pyspark"]),
        ("eddyline.cli.main", ["numba", "pyspark", "amaranth"]),
    ],
)
def test_imports_point_one_way(module, forbidden):
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert module in loaded
    assert not set(forbidden) & set(loaded)


def test_spark_is_imported_by_its_own_part_alone():
    """Anywhere in a module, but for what only type checkers read."""
    host = Path(__file__).parents[2] / "host" / "eddyline"
    found = {
        str(path.relative_to(host))
        for path in host.rglob("*.py")
        for name in _imported(ast.parse(path.read_text()))
        if name.split(".")[0] in ("pyspark", "py4j")
    }
    assert found
    assert all(name.startswith("spark/") for name in found), found


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return []
        case ast.Import():
            return [one.name for one in node.names]
        case ast.ImportFrom():
            return [node.module or ""]
    return [name for child in ast.iter_child_nodes(node) for name in _imported(child)]
