"""Joins of every shape for engines that share their work."""

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from eddyline.device import Tuples
from eddyline.engine.choice import choose
from eddyline.engine.part import Engine
from eddyline.plan import Order, Plan, Window
from tests.host.twin.joins import SORTED, UNSORTED, parts, plan, tuples

WINDOWS = (
    st.builds(Window, st.just("rows"), st.sampled_from([1, 2, 7, 40, 1000]))
    | st.builds(Window, st.just("time"), st.sampled_from([0, 3, 30]))
    | st.just(Window("unbounded"))
)
# Alike, one-sided, or of one side long before the other.
ARRIVALS = st.text("rs", min_size=1, max_size=120) | st.sampled_from(
    ["r" * 60 + "s" * 60, "rsss" * 30, "r" * 90 + "s", "s" * 40 + "rs" * 20 + "r" * 40]
)
CUTS = st.lists(st.integers(1, 120), max_size=6)


@dataclass(frozen=True)
class Drawn:
    """A plan, arrivals for it, and where they are cut into pieces."""

    plan: Plan
    whole: Tuples
    cuts: list[int]


@st.composite
def joins(draw, *, indexed: bool = False, orders: tuple[str, ...] = ("none", "inner")) -> Drawn:
    known = SORTED if indexed else SORTED | UNSORTED
    on = draw(st.sampled_from(list(known.values())))
    one = replace(
        plan(on, draw(WINDOWS), draw(WINDOWS)), order=Order(draw(st.sampled_from(orders)))
    )
    return Drawn(one, tuples(on, draw(ARRIVALS), draw(st.integers(0, 99))), draw(CUTS))


def pulled(engine: Engine) -> list[tuple[int, int]]:
    """Return all pairs that are there."""
    pairs: list[tuple[int, int]] = []
    while (part := engine.pull()) is not None:
        pairs += zip(part.r_id.tolist(), part.s_id.tolist(), strict=True)
    return pairs


def pushed(engine: Engine, drawn: Drawn) -> list[tuple[int, int]]:
    """Push arrivals piece by piece, pulling now and then; return all pairs."""
    found = []
    for number, piece in enumerate(parts(drawn.whole, drawn.cuts)):
        engine.push(piece)
        if number % 2:
            found += pulled(engine)
    return found + pulled(engine)


def alone(drawn: Drawn) -> list[tuple[int, int]]:
    """Return the pairs that one process finds."""
    engine = choose(drawn.plan).open(drawn.plan)
    engine.push(drawn.whole)
    pairs = pulled(engine)
    engine.close()
    return pairs


def same(found: list[tuple[int, int]], expected: list[tuple[int, int]], order: Order) -> bool:
    if order.kind == "inner":
        return found == expected
    return Counter(found) == Counter(expected)
