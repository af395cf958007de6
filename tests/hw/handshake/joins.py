"""Small joins for the gateware, and what they must give."""

import random

from eddyline.plan import All, Compare, Layout, Order, Plan, Window, Word, in_rows
from eddyline.reference import STAR, Arrival, Join

__all__ = ["band_plan", "expected", "message", "random_arrivals", "timed_arrivals"]


def band_plan(width=8, id_bits=10):
    """``s.lo <= r.x <= s.hi``, windows set at run time."""
    r = Layout((Word("x", width, False, "r.x"),), ())
    s = Layout((Word("lo", width, False, "s.lo"), Word("hi", width, False, "s.hi")), ())
    predicate = All((Compare(0, "ge", 0), Compare(0, "le", 1)))
    rows = Window("rows", 4)
    return Plan(r, s, predicate, rows, rows, Order("none"), False, id_bits)


def random_arrivals(count, *, seed, values=8, r_share=0.5):
    """Return (side, number within its side, words) of random tuples."""
    rng = random.Random(seed)
    numbers = {"r": 0, "s": 0}
    arrivals = []
    for _ in range(count):
        side = "r" if rng.random() < r_share else "s"
        x = rng.randrange(values)
        words = {"x": x} if side == "r" else {"lo": x, "hi": x + rng.randrange(3)}
        arrivals.append((side, numbers[side], words))
        numbers[side] += 1
    return arrivals


def message(side, number, words):
    """Return a tuple as the operator's input."""
    return {
        "star": 0,
        "flush": 0,
        "side": int(side == "s"),
        "entry": {side: {"id": number, "words": words}},
    }


def expected(plan, arrivals, window_r, window_s):
    """Return the pairs of ids that the definition gives, in its order."""
    join = Join(
        lambda r, s: plan.matches(r | {"valid": -1}, s | {"valid": -1}),
        Window("rows", window_r),
        Window("rows", window_s),
        Order("none"),
    )
    pairs = []
    for side, number, words in arrivals:
        pairs += join.arrive(Arrival(side, number, words, 0))
    return [pair for pair in [*pairs, *join.end()] if pair != STAR]


def timed_arrivals(count, *, age):
    """Return a plan in which all matches that is at most ``age`` apart, messages and the pairs."""
    empty = Layout((), ())
    window = Window("time", age)
    plan = in_rows(Plan(empty, empty, All(()), window, window, Order("none"), True, 10), 1)
    join = Join(lambda r, s: True, window, window, Order("none"))
    messages, pairs, numbers = [], [], {"r": 0, "s": 0}
    for when in range(count):
        side = "rs"[when % 3 == 0]
        words = {"when": when, "until": when + age}
        messages.append(message(side, numbers[side], words))
        pairs += join.arrive(Arrival(side, numbers[side], {}, when))
        numbers[side] += 1
    return plan, messages, [pair for pair in [*pairs, *join.end()] if pair != STAR]
