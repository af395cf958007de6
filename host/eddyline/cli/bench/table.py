"""Tables in Markdown."""

from collections.abc import Iterable

__all__ = ["table"]


def table(head: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a table; ``head`` has its columns, separated by ``|``."""
    names = [name.strip() for name in head.split("|")]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    lines += [f"| {' | '.join(_cell(one) for one in row)} |" for row in rows]
    return [*lines, ""]


def _cell(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
