"""Random predicates and rows, with the same predicate in DuckDB's words."""

import datetime
import decimal
import math
import struct
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

INTEGERS = {
    f"{sign}{bits}": getattr(pa, f"{name}{bits}")()
    for sign, name in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
}
FLOATS = {"f32": pa.float32(), "f64": pa.float64()}
DECIMALS = {"d4": pa.decimal128(4, 1), "d18": pa.decimal128(18, 4)}
MOMENTS = {"ts_s": pa.timestamp("s"), "ts_ms": pa.timestamp("ms"), "ts_us": pa.timestamp("us")}
TYPES = (
    INTEGERS | FLOATS | DECIMALS | MOMENTS | {"day": pa.date32(), "b": pa.bool_(), "t": pa.string()}
)
SCHEMA = pa.schema(TYPES.items())
OPS = ["=", "<>", "<", "<=", ">", ">="]
# Few digits, so that DuckDB and we read them alike; some beyond the smaller types.
NUMBERS = [
    "0",
    "1",
    "3",
    "10",
    "127",
    "128",
    "0.5",
    "0.1",
    "2.25",
    "16777217",
    "1e10",
    "9223372036854775807",
]


@dataclass(frozen=True)
class Text:
    """The same expression for eddyline and for DuckDB."""

    ours: str
    duck: str


def _float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def values(name: str) -> st.SearchStrategy:
    """Values that collide often and sit on every edge."""
    if name in INTEGERS:
        bits = INTEGERS[name].bit_width
        low = -(1 << bits - 1) if name[0] == "i" else 0
        high = low + (1 << bits) - 1
        near = [low, low + 1, high - 1, high, *range(max(low, -3), 5), 10, 13]
        return st.sampled_from(near) | st.integers(low, high)
    if name in FLOATS:
        kind = 32 if name == "f32" else 64
        edges = [0.0, -0.0, 1.0, 10.0, 9.5, -0.5, 0.1, 3.0, math.inf, -math.inf, math.nan, 1e30]
        largest = 3.4028234663852886e38 if kind == 32 else 1.7976931348623157e308
        edges += [largest, -largest, 2.0**-149 if kind == 32 else 5e-324]
        edges = [_float32(x) if kind == 32 else x for x in edges]
        return st.sampled_from(edges) | st.floats(width=kind)
    if name in DECIMALS:
        type_ = DECIMALS[name]
        most = 10**type_.precision - 1
        units = st.sampled_from([0, 1, -1, 10, 5, 1000, most, -most]) | st.integers(-most, most)
        return units.map(lambda n: decimal.Decimal(n).scaleb(-type_.scale))
    if name in MOMENTS:
        start = datetime.datetime(2024, 2, 29, 23, 59, 58)
        step = {"ts_s": 10**6, "ts_ms": 10**3, "ts_us": 1}[name]
        steps = st.integers(-5, 5) | st.integers(-(10**6), 10**6)
        return steps.map(lambda n: start + datetime.timedelta(microseconds=n * step))
    if name == "day":
        return st.integers(-3, 3).map(lambda n: datetime.date(2024, 3, 1) + datetime.timedelta(n))
    if name == "b":
        return st.booleans()
    return st.sampled_from(["", "a", "b", "ab", "é", "A", "'"])


def tables(rows: int = 6) -> st.SearchStrategy[pa.Table]:
    """Tables with a column of every type, NULLs included."""

    def column(name: str, count: int) -> st.SearchStrategy[pa.Array]:
        cells = st.lists(st.none() | values(name), min_size=count, max_size=count)
        return cells.map(lambda cells: pa.array(cells, TYPES[name]))

    def table(count: int) -> st.SearchStrategy[pa.Table]:
        columns = st.tuples(*(column(name, count) for name in TYPES))
        return columns.map(lambda arrays: pa.Table.from_arrays(arrays, schema=SCHEMA))

    return st.integers(1, rows).flatmap(table)


def columns(side: st.SearchStrategy[str], names: list[str]) -> st.SearchStrategy[tuple[str, str]]:
    return st.tuples(side, st.sampled_from(names))


SIDES = st.sampled_from("rs")


def _exact(name: str, text: str) -> str:
    """Widen for DuckDB, so that its arithmetic cannot overflow either."""
    if name in INTEGERS:
        return f"CAST({text} AS DECIMAL(30, 5))"
    if name in DECIMALS:
        return f"CAST({text} AS DECIMAL(30, 5))"
    return text


@st.composite
def terms(draw, names: list[str]) -> tuple[str, str, Text]:
    """Draw a column, perhaps shifted: side, column and text."""
    side, name = draw(columns(SIDES, names))
    ours = f"{side}.{name}"
    duck = _exact(name, ours)
    if draw(st.booleans()):
        sign = draw(st.sampled_from("+-"))
        if name in FLOATS:
            number = draw(st.sampled_from(NUMBERS))
            kind = "FLOAT" if name == "f32" else "DOUBLE"
            return (
                side,
                name,
                Text(f"{ours} {sign} {number}", f"({duck} {sign} CAST('{number}' AS {kind}))"),
            )
        if name in INTEGERS or name in DECIMALS:
            number = draw(st.sampled_from([n for n in NUMBERS if n != "1e10"]))
            return (
                side,
                name,
                Text(
                    f"{ours} {sign} {number}", f"({duck} {sign} CAST('{number}' AS DECIMAL(30, 5)))"
                ),
            )
        if name in MOMENTS:
            shift = f"INTERVAL '{draw(st.sampled_from([1, 90, 86400]))}' SECOND"
            return side, name, Text(f"{ours} {sign} {shift}", f"({duck} {sign} {shift})")
        if name == "day":
            shift = draw(st.sampled_from([0, 1, 3]))
            return side, name, Text(f"{ours} {sign} {shift}", f"({duck} {sign} {shift})")
    return side, name, Text(ours, duck)


FAMILIES = [
    [*INTEGERS, *DECIMALS], ["f32"], ["f64"], ["f32", "f64"], [*MOMENTS, "day"], ["b"], ["t"],
]  # fmt: skip


@st.composite
def comparisons(draw) -> Text:
    family = draw(st.sampled_from(FAMILIES))
    _, _, left = draw(terms(family))
    _, _, right = draw(terms(family))
    ops = ["=", "<>"] if family == ["t"] else OPS
    op = draw(st.sampled_from(ops))
    return Text(f"{left.ours} {op} {right.ours}", f"{left.duck} {op} {right.duck}")


@st.composite
def mixed_comparisons(draw) -> Text:
    """Draw an integer against a float: both engines compare them as doubles."""
    whole = draw(columns(SIDES, ["i8", "u16", "i32", "u32"]))
    real = draw(columns(SIDES, ["f32", "f64"]))
    op = draw(st.sampled_from(OPS))
    a, b = f"{whole[0]}.{whole[1]}", f"{real[0]}.{real[1]}"
    if draw(st.booleans()):
        number = draw(st.sampled_from(["1", "0.5", "2.25"]))
        kind = "FLOAT" if real[1] == "f32" else "DOUBLE"
        b = f"{b} + {number}"
        duck = f"({real[0]}.{real[1]} + CAST('{number}' AS {kind}))"
    else:
        duck = b
    return Text(f"{a} {op} {b}", f"CAST({a} AS DOUBLE) {op} CAST({duck} AS DOUBLE)")


@st.composite
def against_constants(draw) -> Text:
    family = draw(st.sampled_from([[*INTEGERS, *DECIMALS], ["f32"], ["f64"], ["t"], ["day"]]))
    side, name, term = draw(terms(family))
    if name == "t":
        literals = [("'a'", "'a'"), ("'é'", "'é'"), ("''''", "''''")]
    elif name == "day":
        literals = [("DATE '2024-03-01'",) * 2, ("'2024-02-29'", "DATE '2024-02-29'")]
    else:
        kind = {"f32": "FLOAT", "f64": "DOUBLE"}.get(name, "DECIMAL(30, 5)")
        numbers = [n for n in NUMBERS if name in FLOATS or n != "1e10"]
        literals = [(n, f"CAST('{n}' AS {kind})") for n in numbers]
        literals += [("-3", f"CAST('-3' AS {kind})")]
    if draw(st.booleans()):
        some = draw(st.lists(st.sampled_from(literals), min_size=1, max_size=3))
        negated = draw(st.sampled_from(["", "NOT "]))
        ours, duck = (", ".join(one[i] for one in some) for i in (0, 1))
        return Text(f"{term.ours} {negated}IN ({ours})", f"{term.duck} {negated}IN ({duck})")
    literal = draw(st.sampled_from(literals))
    op = draw(st.sampled_from(["=", "<>"] if name == "t" else OPS))
    return Text(f"{term.ours} {op} {literal[0]}", f"{term.duck} {op} {literal[1]}")


@st.composite
def bands(draw) -> Text:
    family = draw(st.sampled_from([[*INTEGERS, *DECIMALS], ["f32"], ["f64"], ["f32", "f64"]]))
    (side, a), (other, b) = draw(columns(SIDES, family)), draw(columns(SIDES, family))
    number = draw(st.sampled_from([n for n in NUMBERS if family[0][0] == "f" or n != "1e10"]))
    left, right = f"{side}.{a}", f"{other}.{b}"
    wide = "DOUBLE" if "f64" in (a, b) else "FLOAT"
    kinds = {name: {"f32": "FLOAT", "f64": "DOUBLE"}.get(name, "DECIMAL(30, 5)") for name in (a, b)}
    cast = {name: f"CAST('{number}' AS {kinds[name]})" for name in (a, b)}
    duck_left, duck_right = _exact(a, left), _exact(b, right)
    if draw(st.booleans()):
        negated = draw(st.sampled_from(["", "NOT "]))
        return Text(
            f"{left} {negated}BETWEEN {right} - {number} AND {right} + {number}",
            f"{duck_left} {negated}BETWEEN {duck_right} - {cast[b]} AND {duck_right} + {cast[b]}",
        )
    op = draw(st.sampled_from(OPS))
    absolute = draw(st.sampled_from(["abs", ""]))
    limit = (
        f"CAST('{number}' AS {wide})"
        if family[0][0] == "f"
        else f"CAST('{number}' AS DECIMAL(30, 5))"
    )
    return Text(
        f"{absolute}({left} - {right}) {op} {number}",
        f"{absolute}({duck_left} - {duck_right}) {op} {limit}",
    )


@st.composite
def nulls(draw) -> Text:
    side, name = draw(columns(SIDES, list(TYPES)))
    text = f"{side}.{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    return Text(text, text)


LEAVES = (
    comparisons()
    | mixed_comparisons()
    | against_constants()
    | bands()
    | nulls()
    | st.sampled_from(
        [Text("r.b", "r.b"), Text("TRUE", "TRUE"), Text("r.i32 = NULL", "r.i32 = NULL")]
    )
)


def _joint(parts: tuple[str, list[Text]]) -> Text:
    word, texts = parts
    return Text(
        f" {word} ".join(f"({t.ours})" for t in texts),
        f" {word} ".join(f"({t.duck})" for t in texts),
    )


PREDICATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3)).map(
            _joint
        )
        | inner.map(lambda text: Text(f"NOT ({text.ours})", f"NOT ({text.duck})"))
    ),
    max_leaves=4,
)
