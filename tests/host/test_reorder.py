"""The host restores the order of what a handshake chain finds.

The chain here is a model of the walk: a list per core and side, and every comparison noted when it
is made. It shares nothing with the formulas under test.
"""

import random
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from eddyline.device import Results, Tuples
from eddyline.device.reorder import Reorder
from eddyline.errors import DeviceError
from eddyline.plan import All, Layout, Order, Plan, Window
from eddyline.reference import STAR, Arrival, Join
from eddyline_hw.handshake.geometry import Chain, Segments

RECORD = np.dtype([("id", "<u4"), ("time", "<i8")])
EMPTY = Layout((), ())
ORDERS = [Order("none"), *(Order(kind, n) for kind in ("outer", "inner") for n in (0, 1, 3))]
CHAINS = st.builds(
    Chain,
    cores=st.integers(1, 6),
    window_r=st.integers(1, 12),
    window_s=st.integers(1, 12),
    kind=st.sampled_from(["lockstep", "asynchronous"]),
)


class Walk:
    """A chain that is always at rest between arrivals. Cores are counted on each side's way."""

    def __init__(self, cores, windows, kind):
        slots = [max(window, cores) if kind == "lockstep" else window for window in windows]
        self.cores = cores
        self.windows = windows
        self.bubbles = [total - window for total, window in zip(slots, windows, strict=True)]
        self.shares = [[t // cores + (k < t % cores) for k in range(cores)] for t in slots]
        # In lock step even slots without a tuple move on.
        self.held = [
            [deque([None] * share if kind == "lockstep" else []) for share in shares]
            for shares in self.shares
        ]
        self.count = [0, 0]
        self.compared = []

    def arrive(self, side):
        self._step(side, self.count[side])
        self.count[side] += 1
        if self.count[side] % self.windows[side] == 0:
            for _ in range(self.bubbles[side]):
                self._step(side, None)

    def _step(self, side, entry):
        for core, (share, mine) in enumerate(zip(self.shares[side], self.held[side], strict=True)):
            if entry is not None:
                opposite = self.held[1 - side][self.cores - 1 - core]
                self.compared += [
                    (old, entry) if side else (entry, old) for old in opposite if old is not None
                ]
            mine.append(entry)
            if len(mine) <= share:
                return
            entry = mine.popleft()


def walk_of(chain: Chain) -> Walk:
    return Walk(chain.cores, (chain.window_r, chain.window_s), chain.kind)


def plan_of(windows, order=ORDERS[0]) -> Plan:
    return Plan(EMPTY, EMPTY, All(()), *windows, order, timed=True)


def rows_of(chain: Chain) -> tuple[Window, Window]:
    return Window("rows", chain.window_r), Window("rows", chain.window_s)


def tuples_of(arrivals: list[Arrival]) -> Tuples:
    sides = np.array([one.side == "s" for one in arrivals], np.uint8)
    records = [
        np.array([(one.id, one.time) for one in arrivals if one.side == side], RECORD)
        for side in "rs"
    ]
    return Tuples(sides, *records)


def as_list(results: Results) -> list:
    pairs = list(zip(results.r_id.tolist(), results.s_id.tolist(), strict=True))
    items, cuts = [], [0, *results.stars.tolist()]
    for begin, end in zip(cuts, cuts[1:], strict=False):
        items += [*pairs[begin:end], STAR]
    return items + pairs[cuts[-1] :]


@given(chain=CHAINS, sides=st.lists(st.integers(0, 1), max_size=70))
@example(chain=Chain(5, 2, 3), sides=[0, 1] * 20)
@example(chain=Chain(5, 2, 2, "asynchronous"), sides=[0, 1] * 20)
@example(chain=Chain(4, 9, 3), sides=[0] * 12 + [1] + [0] * 12)
def test_an_arrival_is_closed_exactly_when_it_has_met_all_its_partners(chain, sides):
    walk, reorder = walk_of(chain), Reorder(plan_of(rows_of(chain)), chain)
    partners: list[set] = []
    for side in sides:
        number, there = walk.count[side], walk.count[1 - side]
        window = walk.windows[1 - side]
        seen = range(max(0, there - window), there)
        partners.append({(old, number) if side else (number, old) for old in seen})
        walk.arrive(side)
        reorder.arrive(tuples_of([Arrival("rs"[side], 0, None)]))
        compared = set(walk.compared)
        first_open = next(
            (i for i, pairs in enumerate(partners) if pairs - compared), len(partners)
        )
        assert reorder.take().closed == first_open
    assert len(walk.compared) == len(set(walk.compared))
    assert set(walk.compared) <= set().union(*partners)


def test_shares_and_bubbles():
    lockstep, asynchronous = (Chain(4, 10, 3, kind) for kind in ("lockstep", "asynchronous"))
    assert [lockstep.r.share(core) for core in range(4)] == [3, 3, 2, 2]
    assert (lockstep.total_r, lockstep.r.base, lockstep.r.extra) == (10, 2, 2)
    assert (lockstep.r.period, lockstep.r.bubbles) == (10, 0)
    assert (lockstep.total_s, lockstep.s.base, lockstep.s.extra) == (4, 1, 0)
    assert (lockstep.s.period, lockstep.s.bubbles) == (3, 1)
    assert (asynchronous.total_s, asynchronous.s.bubbles) == (3, 0)
    assert [asynchronous.s.share(core) for core in range(4)] == [1, 1, 1, 0]
    assert asynchronous.s.core_of(3) == 4


@given(cores=st.integers(1, 40), window=st.integers(1, 100), lockstep=st.booleans())
def test_shares_add_up_to_the_slots(cores, window, lockstep):
    side = Segments(cores, window, lockstep)
    shares = [side.share(core) for core in range(cores)]
    assert sum(shares) == side.total == side.period + side.bubbles
    assert max(shares) == side.largest
    assert [side.core_of(slot) for slot in range(side.total)] == [
        core for core, share in enumerate(shares) for _ in range(share)
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Chain(0, 1, 1), "a chain of 0 cores with windows of 1 and 1 tuples joins nothing"),
        (lambda: Chain(2, 5, 0), "windows of 5 and 0 tuples joins nothing"),
        (lambda: Chain(2, 5, 5, "ring"), "a chain is lockstep or asynchronous, not 'ring'"),
    ],
)
def test_chains_that_cannot_be(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


@dataclass
class Run:
    """A join on a model chain: answers are shuffled and come as late as a star allows."""

    chain: Chain
    plan: Plan
    sparse: int
    seed: int
    reorder: Reorder

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.bits = self.reorder._bits
        self.closed = 0

    def matches(self, r: Arrival, s: Arrival) -> bool:
        return (r.id * 7 + s.id * 3) % self.sparse == 0

    def round(self, arrivals: list[Arrival], cuts: list[int]) -> tuple[list, list]:
        """Return what was handed over until the flush, and what the definition gives."""
        definition = Join(
            lambda r, s: self.matches(r, s), self.plan.window_r, self.plan.window_s,
            self.plan.order,
        )  # fmt: skip
        walk, found, expected, ends = walk_of(self.chain), [], [], [0]
        ids = [[one.id for one in arrivals if one.side == side] for side in "rs"]
        before, done = self.closed, 0
        begin = 0
        for end in [*cuts, len(arrivals)]:
            for one in arrivals[begin:end]:
                walk.arrive(int(one.side == "s"))
                row = Arrival(one.side, one.id, one, one.time)
                expected += definition.arrive(row)
                ends.append(len(expected))
            self.reorder.arrive(tuples_of(arrivals[begin:end]))
            begin = end
            true = set(expected)
            met = [(r, s) for r, s in walk.compared[done:] if (ids[0][r], ids[1][s]) in true]
            done = len(walk.compared)
            self.answer(met)
            found += self.noted(self.reorder.take())
            settled = {item for item in expected[: ends[self.closed - before]] if item != STAR}
            assert settled <= set(found), "closed, but not all handed over"
        compared = {(ids[0][r], ids[1][s]) for r, s in walk.compared}
        numbers = [{one: number for number, one in enumerate(side)} for side in ids]
        left = [pair for pair in expected if pair != STAR and pair not in compared]
        self.answer([(numbers[0][r], numbers[1][s]) for r, s in left])
        found += self.noted(self.reorder.flush())
        assert self.closed == before + len(arrivals)
        assert self.reorder.flush().nothing
        return found, expected + list(definition.end())

    def answer(self, pairs):
        self.random.shuffle(pairs)
        half = self.random.randint(0, len(pairs))
        for part in (pairs[:half], pairs[half:]):
            numbers = np.array(part, np.uint32).reshape(-1, 2) & np.uint32((1 << self.bits) - 1)
            self.reorder.add(numbers[:, 0], numbers[:, 1])

    def noted(self, results: Results) -> list:
        assert results.closed >= self.closed
        assert results.r_id.dtype == results.s_id.dtype == np.uint32
        advanced, self.closed = results.closed > self.closed, results.closed
        if self.plan.order.kind == "none":
            assert advanced <= (not results.nothing), "rows are kept until a caller hears of it"
        return as_list(results)


@st.composite
def inputs(draw) -> list[Arrival]:
    """Draw arrivals with ids that have nothing to do with sequence numbers; all times may tie."""
    sides = draw(st.sampled_from(["rs", "rs", "rrrrrs", "r"]))
    gaps = draw(st.sampled_from([(0, 0), (0, 1), (0, 3)]))
    first = draw(st.sampled_from([0, 1000, 2**32 - 10]))
    count, arrivals, now = {"r": 0, "s": 0}, [], -5
    for _ in range(draw(st.integers(0, 60))):
        side = draw(st.sampled_from(sides))
        now += draw(st.integers(*gaps))
        count[side] += 1
        arrivals.append(Arrival(side, (first + 5 * count[side]) % 2**32, None, now))
    return arrivals


WINDOWS = st.builds(Window, st.just("rows"), st.integers(1, 9)) | st.builds(
    Window, st.just("time"), st.sampled_from([0, 1, 4, 2**70])
)


def capacity(window: Window, arrivals: list[Arrival], side: str) -> int:
    """Return how many tuples of a side a chain must hold for this input."""
    if window.kind == "rows":
        return window.size
    inside = [
        sum(old.side == side and one.time - old.time <= window.size for old in arrivals[:place])
        for place, one in enumerate(arrivals)
    ]
    return max([1, *inside])


@pytest.mark.parametrize("order", ORDERS, ids=lambda one: f"{one.kind}:{one.every}")
@settings(max_examples=60)
@given(data=st.data())
def test_results_are_what_the_definition_gives(order, data):
    rounds = [data.draw(inputs()) for _ in range(data.draw(st.integers(1, 2)))]
    windows = data.draw(st.tuples(WINDOWS, WINDOWS))
    sizes = [
        max(capacity(window, arrivals, side) for arrivals in rounds)
        for side, window in zip("rs", windows, strict=True)
    ]
    kind = data.draw(st.sampled_from(["lockstep", "asynchronous"]))
    chain = Chain(data.draw(st.integers(1, 6)), *sizes, kind)
    batch = data.draw(st.sampled_from([1, 4, 100]))
    plan = plan_of(windows, order)
    # As few numbers as the promise on memory allows.
    most = max(sizes) + chain.total_r + chain.total_s + min(batch, 60)
    bits = data.draw(st.sampled_from([most.bit_length(), 32]))
    reorder = Reorder(plan, chain, bits=bits)
    run = Run(chain, plan, data.draw(st.sampled_from([1, 2, 5])), data.draw(st.integers()), reorder)
    for arrivals in rounds:
        event(f"wraps: {len(arrivals) > 1 << bits}")
        found, expected = run.round(arrivals, list(range(batch, len(arrivals), batch)))
        if order.kind == "none":
            assert found[-1:] in ([], [STAR]), "results after the last star"
            found, expected = (sorted(set(items) - {STAR}) for items in (found, expected))
        assert found == expected


def alternating(count: int) -> list[Arrival]:
    return [Arrival("rs"[i % 2], i // 2, None) for i in range(count)]


def pushed(order: str, count=8, chain=None, **options) -> Reorder:
    chain = chain or Chain(2, 8, 8)
    reorder = Reorder(plan_of(rows_of(chain), Order(order)), chain, **options)
    reorder.arrive(tuples_of(alternating(count)))
    return reorder


def every_pair(count: int) -> np.ndarray:
    return np.array([(r, s) for r in range(count) for s in range(count)], np.uint32).T


def test_more_pairs_than_there_is_room_for():
    reorder = pushed("inner", limit=15)
    message = (
        "16 pairs wait for their turn in the order inner, more than the 15 there is room for: "
        "use smaller windows, --order none, or another device"
    )
    with pytest.raises(DeviceError, match=message):
        reorder.add(*every_pair(4))
    pushed("none", limit=15).add(*every_pair(4))
    enough = pushed("inner", limit=16)
    enough.add(*every_pair(4))
    assert enough.waiting == 16
    assert len(enough.flush()) == 16
    assert enough.waiting == 0


def test_more_tuples_than_sequence_numbers():
    reorder = pushed("none", bits=2)
    with pytest.raises(DeviceError, match="5 tuples of R are in the chain or on their way, more"):
        reorder.arrive(tuples_of(alternating(1)))


@pytest.mark.parametrize("order", ["none", "inner"])
def test_answers_that_cannot_be_right(order):
    one = np.ones(1, np.uint32)
    with pytest.raises(DeviceError, match="a pair of tuple 7, which is not in its chain"):
        pushed(order).add(one, one * 7)
    late = pushed(order, chain=Chain(1, 8, 8))
    assert late.take().closed == 8
    with pytest.raises(
        DeviceError, match="a pair of arrival 3 after a star that closed the first 8"
    ):
        late.add(one, one)


@pytest.mark.parametrize("order", ["none", "inner"])
def test_a_chain_that_drops_tuples_closes_arrivals_at_the_end(order):
    """The first R was dropped, so the others lag behind: a pair of old tuples comes late."""
    believed = Chain(1, 2, 2)
    reorder = pushed(order, chain=believed, lossy=True)
    assert reorder.take().closed == 0
    for number in (1, 3):
        reorder.add(*np.full((2, 1), number, np.uint32))
    some = reorder.take()
    assert (len(some), some.closed) == (2 if order == "none" else 0, 0)
    rest = reorder.flush()
    assert (len(some) + len(rest), rest.closed) == (2, 8)
    assert reorder.flush().nothing


def test_a_geometry_that_is_wrong_is_noticed():
    """The host believes in one more core, with which neighbours would meet earlier."""
    chain, believed = Chain(2, 9, 9), Chain(3, 9, 9)
    plan = plan_of(rows_of(chain), Order("inner"))
    run = Run(chain, plan, 1, 0, Reorder(plan, believed))
    with pytest.raises(AssertionError, match="closed, but not all handed over"):
        run.round(alternating(40), list(range(40)))


def test_long_inputs_leave_nothing_behind():
    chain = Chain(4, 16, 16)
    plan = plan_of(rows_of(chain), Order("inner"))
    reorder = Reorder(plan, chain, bits=7)
    for _ in range(100):
        reorder.arrive(tuples_of(alternating(64)))
        results = reorder.take()
    assert results.closed > 6400 - chain.total_r - chain.total_s
    assert max(len(side.held) for side in reorder._sides) <= 16 + 32
