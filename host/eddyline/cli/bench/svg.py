"""Line plots as small SVG files, without a plotting library."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log

__all__ = ["Line", "plot"]

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 34, 48
# Okabe and Ito's palette: also told apart by those who see fewer colours.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


@dataclass(frozen=True)
class Line:
    """A named sequence of points; ``dashed`` for what is not measured."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def plot(
    title: str,
    lines: Sequence[Line],
    *,
    x: str,
    y: str,
    log_x: int | None = None,
    log_y: int | None = None,
    names: dict[int, str] | None = None,
) -> str:
    """Return a plot; ``log_x`` and ``log_y`` are bases, ``names`` stand for numbers at ``x``."""
    across = _Axis([p[0] for line in lines for p in line.points], log_x, LEFT, WIDTH - RIGHT)
    up = _Axis([p[1] for line in lines for p in line.points], log_y, HEIGHT - BOTTOM, TOP)
    parts = [_text(LEFT, 20, title, size=14)]
    labels = names.items() if names else [(one, _number(one)) for one in across.ticks()]
    for value, label in labels:
        at = across(value)
        parts.append(_rule(at, TOP, at, HEIGHT - BOTTOM))
        parts.append(_text(at, HEIGHT - BOTTOM + 16, label, anchor="middle"))
    for value in up.ticks():
        parts.append(_rule(LEFT, up(value), WIDTH - RIGHT, up(value)))
        parts.append(_text(LEFT - 6, up(value) + 4, _number(value), anchor="end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x, anchor="middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f' transform="rotate(-90 16 {middle})"'
    parts.append(_text(16, middle, y, anchor="middle", more=turned))
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        places = [(across(a), up(b)) for a, b in line.points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        if not line.dashed:
            parts += [
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places
            ]
        height = TOP + 12 + 18 * number
        begin = WIDTH - RIGHT + 10
        parts.append(
            f'<line x1="{begin}" y1="{height}" x2="{begin + 20}" y2="{height}" stroke="{colour}" '
            f'stroke-width="2"{dash}/>'
        )
        parts.append(_text(begin + 26, height + 4, line.name))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
        f"{body}\n</svg>\n"
    )


class _Axis:
    """From values to places."""

    def __init__(self, values: list[float], base: int | None, begin: float, end: float):
        self._base = base
        self._begin, self._end = begin, end
        if base:
            low, high = (log(one, base) for one in (min(values), max(values)))
            self._low, self._high = floor(low + 1e-9), max(ceil(high - 1e-9), floor(low) + 1)
            self._step = 1.0
        else:
            high = max(values) or 1.0
            power = 10.0 ** floor(log(high, 10))
            self._step = next(s * power for s in (0.1, 0.2, 0.5, 1, 2) if high / (s * power) <= 8)
            self._low, self._high = 0, ceil(high / self._step - 1e-9)

    def __call__(self, value: float) -> float:
        place = log(value, self._base) if self._base else value / self._step
        share = (place - self._low) / (self._high - self._low)
        return self._begin + share * (self._end - self._begin)

    def ticks(self) -> list[float]:
        whole = range(self._low, self._high + 1)
        return [self._base**n if self._base else n * self._step for n in whole]


def _number(value: float) -> str:
    return f"{value:,.10g}".replace(",", " ")


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(
    x: float, y: float, text: str, *, size: int = 11, anchor: str = "start", more: str = ""
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{more}>'
        f"{escape(text)}</text>"
    )
