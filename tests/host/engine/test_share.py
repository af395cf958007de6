"""Engines that store a share of the tuples: together they find what one engine finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.engine.choice import choose
from eddyline.engine.indexed import IndexedJoin
from eddyline.engine.nested_share import NestedLoopShare
from eddyline.engine.part import ShareEngine
from eddyline.plan import Plan, Window
from tests.host.engine.draws import Drawn, alone, joins, pulled
from tests.host.twin.joins import BAND, parts, plan, tuples

DEATHS = 0.1  # of an engine, at a piece
KINDS = ["bisort", "rap", "wib", "hash", "nested"]


def opened(one: Plan, kind: str, shares: int) -> ShareEngine:
    paths = choose(one).paths
    if kind == "nested" or paths is None:
        return NestedLoopShare(one)
    if kind == "hash" and not all(path.by_hash for path in paths):
        kind = "bisort"
    return IndexedJoin(one, paths, engine=kind, shares=shares, subwindows=2)


def stored(owners: tuple[np.ndarray, np.ndarray], mine: int, r: slice, s: slice):
    return tuple(
        (one[some] == mine).astype(np.uint8) for one, some in zip(owners, (r, s), strict=True)
    )


def found_by_shares(drawn: Drawn, kind: str, shares: int, seed: int) -> list[tuple[int, int]]:
    """Join with several engines. Some start again and load; some miss what does not concern them.

    Owners are drawn, and one side may have few of them: an engine that holds nothing of the other
    side, and stores nothing of a piece, is told its size when the next one comes.
    """
    rng = np.random.default_rng(seed)
    one, whole = drawn.plan, drawn.whole
    most = rng.integers(1, shares + 1, 2)
    owners = (rng.integers(0, most[0], len(whole.r)), rng.integers(0, most[1], len(whole.s)))
    engines = [opened(one, kind, shares) for _ in range(shares)]
    seen = [(0, 0)] * shares
    pairs: list[tuple[int, int]] = []
    r = s = 0
    for piece in parts(whole, drawn.cuts):
        upto = r + len(piece.r), s + len(piece.s)
        now, before = (slice(r, upto[0]), slice(s, upto[1])), (slice(0, r), slice(0, s))
        for mine, engine in enumerate(engines):
            if rng.random() < DEATHS:
                engine.close()
                engine = engines[mine] = opened(one, kind, shares)
                past, _ = whole.cut(r + s)
                if len(past):
                    engine.load(past, stored(owners, mine, *before))
                seen[mine] = (r, s)
            has = [(owner[some] == mine).any() for owner, some in zip(owners, before, strict=True)]
            stores = stored(owners, mine, *now)
            if not any(map(np.any, stores)) and not (
                (len(piece.r) and has[1]) or (len(piece.s) and has[0])
            ):
                continue
            if seen[mine] != (r, s):
                engine.skip(r - seen[mine][0], s - seen[mine][1])
            engine.push(piece, stores)
            pairs += pulled(engine)
            seen[mine] = upto
        r, s = upto
    for engine in engines:
        engine.close()
    return sorted(pairs)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(drawn=joins(), shares=st.integers(1, 3), seed=st.integers(0, 999))
def test_shares_find_every_pair_once(kind, drawn, shares, seed):
    assert found_by_shares(drawn, kind, shares, seed) == sorted(alone(drawn))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3000)
@given(drawn=joins(), shares=st.integers(1, 4), seed=st.integers(0, 999))
def test_shares_find_every_pair_once_thoroughly(kind, drawn, shares, seed):
    assert found_by_shares(drawn, kind, shares, seed) == sorted(alone(drawn))


@pytest.mark.parametrize("kind", ["bisort", "nested"])
def test_a_share_says_what_it_holds(kind):
    rows = Window("rows", 40)
    whole = tuples(BAND, "rs" * 50, 1)
    engine = opened(plan(BAND, rows, rows), kind, 2)
    mine = np.arange(50) % 2 == 0
    engine.push(whole, (mine.astype(np.uint8), np.zeros(50, np.uint8)))
    pulled(engine)
    r, s = engine.held()
    assert 15 <= r.tuples <= 25  # some have no value that could be found
    assert r.oldest <= 10
    assert r.end == 49
    assert s.tuples == s.end == 0
    engine.expire(50, 50)
    engine.skip(1000, 1000)
    engine.push(whole, (mine.astype(np.uint8), mine.astype(np.uint8)))
    pulled(engine)
    r, s = engine.held()
    assert r.end == s.end == 1099
    assert r.tuples <= 25


def test_everything_may_have_expired_before_tuples_pass_unseen():
    """Sequence numbers go on where a share holds nothing any more."""
    time = Window("time", 5)
    one = plan(BAND, time, time)
    whole = tuples(BAND, "rs" * 40, 3)
    engine = opened(one, "bisort", 2)
    everything = np.ones(40, np.uint8)
    engine.push(whole, (everything, everything))
    before = sorted(pulled(engine))
    engine.expire(40, 40)
    engine.skip(5000, 7)
    later = tuples(BAND, "rs" * 40, 3)
    for records in (later.r, later.s):
        records["time"] += 1000
    engine.push(later, (everything, everything))
    assert sorted(pulled(engine)) == before
