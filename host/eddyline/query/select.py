"""The columns of the result: ``r.*, s.a AS price``."""

from dataclasses import dataclass

from sqlglot import exp

from eddyline.errors import QueryError
from eddyline.query.parse import Names, parse_sql

__all__ = ["RESULT_TIME", "Output", "parse_select"]

RESULT_TIME = "result_time"


@dataclass(frozen=True)
class Output:
    """A result column: ``side`` and ``column`` it is taken from, and its name.

    ``side`` is ``time`` for the result's own time, the later one of its two rows.
    """

    side: str
    column: str
    name: str


def parse_select(text: str | None, names: Names, *, timed: bool) -> list[Output]:
    """Return the result columns; by default R's, then S's.

    Columns of ``*`` that both sides have are told apart as ``r_name`` and ``s_name``.
    """
    outputs: list[Output] = []
    for item in _items(text or "r.*, s.*"):
        alias = item.alias if isinstance(item, exp.Alias) else None
        node = item.this if isinstance(item, exp.Alias) else item
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star) and (alias or any(star.args.values())):
            raise QueryError(
                f"cannot select {item.sql()!r}: a star stands for all columns as they are; name "
                "those that you want"
            )
        if isinstance(node, exp.Star):
            outputs += _every("r", names) + _every("s", names)
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            if node.table.lower() not in ("r", "s"):
                raise QueryError(f"no stream called {node.table!r} in the selection {text!r}")
            outputs += _every(node.table.lower(), names)
        elif (
            isinstance(node, exp.Column) and names.same(node.name) == RESULT_TIME and not node.table
        ):
            if not timed:
                raise QueryError(f"{RESULT_TIME} needs a time column: say which with time")
            outputs.append(Output("time", RESULT_TIME, alias or RESULT_TIME))
        elif isinstance(node, exp.Column):
            side, column = names.find(node)
            outputs.append(Output(side, column, alias or column))
        else:
            raise QueryError(
                f"cannot select {item.sql()!r}: name columns, r.*, s.* or {RESULT_TIME}"
            )
    taken: set[str] = set()
    for output in outputs:
        if names.same(output.name) in taken:
            raise QueryError(f"two result columns are called {output.name!r}: rename one with AS")
        taken.add(names.same(output.name))
    return outputs


def _items(text: str) -> list[exp.Expr]:
    select = parse_sql(text, "selection", prefix="SELECT ")
    if not isinstance(select, exp.Select) or set(select.args) - {"expressions", "kind"} - {
        key for key, value in select.args.items() if not value
    }:
        raise QueryError(f"{text!r} is not a list of columns")
    return select.expressions


def _every(side: str, names: Names) -> list[Output]:
    other = {names.same(name) for name in names.schemas["s" if side == "r" else "r"].names}
    return [
        Output(side, name, f"{side}_{name}" if names.same(name) in other else name)
        for name in names.schemas[side].names
    ]
