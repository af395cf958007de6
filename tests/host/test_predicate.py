"""The lowered predicate on words is the SQL predicate on values."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.query import Query
from eddyline.query.predicate import holds
from eddyline.query.types import raw_values
from eddyline.query.window import rows
from tests.host.predicates import PREDICATES, SCHEMA, TYPES, Text, tables

DUCK = duckdb.connect()


def by_words(query: Query, r: pa.Table, s: pa.Table) -> set[tuple[int, int]]:
    dictionary = Dictionary()
    records = [
        SideEncoder(query.lowering.side(side), dictionary, side=side).encode(_batch(table))
        for side, table in (("r", r), ("s", s))
    ]
    return {
        (i, j)
        for i, a in enumerate(records[0])
        for j, b in enumerate(records[1])
        if query.plan.matches(a, b)
    }


def by_definition(query: Query, r: pa.Table, s: pa.Table) -> set[tuple[int, int]]:
    sides = [_rows(table) for table in (r, s)]
    return {
        (i, j)
        for i, a in enumerate(sides[0])
        for j, b in enumerate(sides[1])
        if holds(query.predicate, a, b)
    }


def by_duckdb(text: str, r: pa.Table, s: pa.Table) -> set[tuple[int, int]]:
    with_ids = [t.append_column("row_id", pa.array(range(t.num_rows))) for t in (r, s)]
    DUCK.register("r", with_ids[0])
    DUCK.register("s", with_ids[1])
    return set(DUCK.execute(f"SELECT r.row_id, s.row_id FROM r, s WHERE {text}").fetchall())


def _batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def _rows(table: pa.Table) -> list[dict]:
    batch = _batch(table)
    columns = {name: raw_values(batch[name]) for name in batch.schema.names}
    return [{name: columns[name][i] for name in columns} for i in range(batch.num_rows)]


def query(on: str, r: pa.Schema = SCHEMA, s: pa.Schema = SCHEMA) -> Query:
    return Query(r, s, on, rows(1), rows(1))


def _one(**cells) -> pa.Table:
    return pa.Table.from_pylist([{name: cells.get(name) for name in TYPES}], schema=SCHEMA)


@settings(max_examples=400)
@given(predicate=PREDICATES, r=tables(), s=tables())
@example(Text("abs(r.f32 - s.f32) <= 0.1", "abs(r.f32 - s.f32) <= CAST('0.1' AS FLOAT)"),
         _one(f32=1.1), _one(f32=1.0))  # fmt: skip
@example(Text("r.i64 < s.i64 + 1", "CAST(r.i64 AS HUGEINT) < CAST(s.i64 AS HUGEINT) + 1"),
         _one(i64=2**63 - 1), _one(i64=2**63 - 1))  # fmt: skip
def test_words_values_and_duckdb_agree(predicate, r, s):
    check(predicate, r, s)


@pytest.mark.slow
@settings(max_examples=3000)
@given(predicate=PREDICATES, r=tables(), s=tables())
def test_words_values_and_duckdb_agree_thoroughly(predicate, r, s):
    check(predicate, r, s)


def check(predicate: Text, r: pa.Table, s: pa.Table) -> None:
    lowered = query(predicate.ours)
    expected = by_definition(lowered, r, s)
    assert by_words(lowered, r, s) == expected
    assert by_duckdb(predicate.duck, r, s) == expected


BAND_2D = "r.x BETWEEN s.a-10 AND s.a+10 AND r.y BETWEEN s.b-10 AND s.b+10"


def test_the_papers_two_dimensional_band():
    rng = np.random.default_rng(7)
    r = pa.table(
        {"x": rng.integers(1, 60, 40).astype("i4"), "y": rng.uniform(1, 60, 40).astype("f4")}
    )
    s = pa.table(
        {"a": rng.integers(1, 60, 40).astype("i4"), "b": rng.uniform(1, 60, 40).astype("f4")}
    )
    band = query(BAND_2D, r.schema, s.schema)
    found = by_words(band, r, s)
    assert found == by_definition(band, r, s) == by_duckdb(BAND_2D, r, s)
    assert 0 < len(found) < 1600
    assert [word.width for word in band.plan.r.words] == [32, 32]
    assert [word.width for word in band.plan.s.words] == [32, 32, 32, 32]


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "=", "<>"])
@pytest.mark.parametrize("name", ["i8", "u8", "i64", "u64", "d18"])
def test_bounds_beyond_the_type_are_exact(name, op):
    """A saturated bound would be wrong here for <, >, = and <>."""
    edges = pa.array([None, *_edges(name)], TYPES[name])
    table = pa.table({name: edges})
    for shift in ("+ 1", "- 1", "+ 300", "- 300", "+ 0.5", "- 36893488147419103232"):
        shifted = query(f"r.{name} {op} s.{name} {shift}", table.schema, table.schema)
        assert by_words(shifted, table, table) == by_definition(shifted, table, table), shift


def _edges(name: str) -> list:
    from eddyline.query.types import column_type

    type_ = column_type(TYPES[name], name)
    raw = [type_.low, type_.low + 1, -1, 0, 1, type_.high - 1, type_.high]
    raw = [x for x in raw if type_.low <= x <= type_.high]
    if name.startswith("d"):
        from decimal import Decimal

        return [Decimal(x).scaleb(-TYPES[name].scale) for x in raw]
    return raw
