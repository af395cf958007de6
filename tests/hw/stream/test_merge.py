# amaranth: UnusedElaboratable=no
from functools import partial

import pytest
from amaranth import Module
from amaranth.hdl import DomainRenamer
from amaranth.lib import data, wiring
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline_hw.stream.merge import Merger, MergeTree
from tests.hw.bench import collect, feed, record, simulate

GAPS = st.lists(st.integers(0, 3), max_size=8)
COUNTS = st.lists(st.integers(0, 6), min_size=1, max_size=9)
RESULT = data.StructLayout({"star": 1, "way": 4, "epoch": 3, "number": 4})


def run(dut, sent, *, idles=(), stall=(), count=None):
    """Feed ``sent[way]`` to each input; return transfers at the inputs and at the output."""
    entered, left = [[] for _ in dut.i], []
    count = sum(map(len, sent)) if count is None else count
    simulate(
        dut,
        *(
            partial(feed, port=port, payloads=sent[n], idle=idles[n] if n < len(idles) else ())
            for n, port in enumerate(dut.i)
        ),
        partial(collect, port=dut.o, count=count, into=[], stall=stall),
        watch=[
            *(
                partial(record, port=port, into=into)
                for port, into in zip(dut.i, entered, strict=True)
            ),
            partial(record, port=dut.o, into=left),
        ],
    )
    return entered, left


def tagged(counts):
    return [[way << 4 | n for n in range(count)] for way, count in enumerate(counts)]


def by_input(left, ways):
    return [[payload for _, payload in left if payload >> 4 == way] for way in range(ways)]


@settings(max_examples=25, deadline=None)
@given(
    counts=COUNTS,
    fan_in=st.integers(2, 8),
    depth=st.sampled_from([2, 5, 6]),
    idles=st.lists(GAPS, max_size=9),
    stall=GAPS,
)
def test_order_is_kept_within_an_input_of_a_tree(counts, fan_in, depth, idles, stall):
    dut = MergeTree(8, inputs=len(counts), fan_in=fan_in, depth=depth)
    _, left = run(dut, tagged(counts), idles=idles, stall=stall)
    assert by_input(left, len(counts)) == tagged(counts)


def longest_wait(entered, idles):
    """Return how many payloads of others were taken while one was pending, at most."""
    longest = 0
    for way, transfers in enumerate(entered):
        others = [cycle for n, into in enumerate(entered) if n != way for cycle, _ in into]
        idle = [*(idles[way] if way < len(idles) else ()), *[0] * len(transfers)]
        free = 0  # first cycle in which the input may offer its next payload
        for (cycle, _), pause in zip(transfers, idle, strict=False):
            longest = max(longest, sum(free + pause <= other < cycle for other in others))
            free = cycle + 1
    return longest


@settings(max_examples=25, deadline=None)
@given(counts=st.lists(st.integers(0, 8), min_size=2, max_size=8), stall=GAPS, idles=st.lists(GAPS))
def test_a_pending_payload_waits_for_at_most_all_other_inputs(counts, stall, idles):
    dut = Merger(8, ways=len(counts))
    entered, left = run(dut, tagged(counts), idles=idles[: len(counts)], stall=stall)
    assert by_input(left, len(counts)) == tagged(counts)
    assert longest_wait(entered, idles) <= len(counts) - 1


class Unfair(Merger):
    """Wrong: the token never moves."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += m.submodules.arbiter.advance.eq(0)
        return m


def test_starvation_is_seen():
    entered, _ = run(Unfair(8, ways=3), tagged([8] * 3))
    assert longest_wait(entered, ()) > 2


@settings(max_examples=25, deadline=None)
@given(shape=st.sampled_from([(2, 2), (4, 2), (4, 4), (8, 2), (9, 3), (8, 8)]), data=st.data())
def test_one_result_per_cycle_leaves_the_root_under_any_pattern(shape, data):
    inputs, fan_in = shape
    counts = data.draw(st.lists(st.integers(0, 8), min_size=inputs, max_size=inputs))
    dut = MergeTree(8, inputs=inputs, fan_in=fan_in, depth=data.draw(st.sampled_from([2, 5])))
    _, left = run(dut, tagged(counts))
    assert [cycle for cycle, _ in left] == list(range(dut.latency, dut.latency + sum(counts)))


@settings(max_examples=20, deadline=None)
@given(counts=COUNTS, fan_in=st.integers(2, 4))
def test_a_tree_of_any_size_loses_no_cycle_once_it_is_full(counts, fan_in):
    dut = MergeTree(8, inputs=len(counts), fan_in=fan_in)
    _, left = run(dut, tagged(counts))
    if left:
        assert left[-1][0] < dut.latency + sum(counts)


@settings(max_examples=8, deadline=None)
@given(stall=st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_a_result_is_there_whenever_the_output_is_ready(stall):
    dut = MergeTree(8, inputs=4, fan_in=2)
    _, left = run(dut, tagged([10] * 4), stall=[dut.latency, *stall[1:]])
    expected, cycle = [], -1
    for pause in [dut.latency, *stall[1:]]:
        cycle += pause + 1
        expected.append(cycle)
    assert [cycle for cycle, _ in left] == expected


def test_busy_inputs_take_turns():
    _, left = run(Merger(8, ways=3), tagged([4] * 3))
    assert [payload >> 4 for _, payload in left] == [0, 1, 2] * 4


def test_busy_inputs_of_a_tree_get_equal_shares():
    _, left = run(MergeTree(8, inputs=4, fan_in=2), tagged([8] * 4))
    for start in range(0, 32, 4):
        assert {payload >> 4 for _, payload in left[start : start + 4]} == {0, 1, 2, 3}


def test_branches_of_an_uneven_tree_carry_inputs_as_evenly_as_possible():
    _, left = run(MergeTree(8, inputs=5, fan_in=2), tagged([15] * 5))
    shares = [sum(payload >> 4 == way for _, payload in left[8:40]) for way in range(5)]
    assert shares == [8, 8, 8, 4, 4]


@pytest.mark.parametrize(
    ("inputs", "fan_in", "levels"),
    [(1, 2, 0), (2, 2, 1), (5, 2, 3), (8, 8, 1), (9, 8, 2), (64, 8, 2), (16, 4, 2), (17, 4, 3)],
)
def test_a_tree_is_no_higher_than_needed(inputs, fan_in, levels):
    dut = MergeTree(8, inputs=inputs, fan_in=fan_in)
    assert dut.levels == levels
    assert dut.latency == max(1, 3 * levels)
    assert MergeTree(8, inputs=inputs, fan_in=fan_in, depth=16).latency == max(1, 4 * levels)


def rows(way, epochs):
    """Return an input's results, with a star after each epoch but the last."""
    sent = []
    for epoch, count in enumerate(epochs):
        sent += [
            RESULT.const({"star": 0, "way": way, "epoch": epoch, "number": n}) for n in range(count)
        ]
        sent.append(RESULT.const({"star": 1, "way": way, "epoch": epoch, "number": 0}))
    return sent[:-1]


@settings(max_examples=30, deadline=None)
@given(
    ways=st.integers(1, 5), stars=st.integers(0, 3), tree=st.booleans(), stall=GAPS, data=st.data()
)
def test_no_result_crosses_its_star(ways, stars, tree, stall, data):
    epochs = st.lists(st.integers(0, 4), min_size=stars + 1, max_size=stars + 1)
    counts = [data.draw(epochs) for _ in range(ways)]
    idles = [data.draw(GAPS) for _ in range(ways)]
    dut = MergeTree(RESULT, inputs=ways, fan_in=2) if tree else Merger(RESULT, ways=ways)
    sent = [rows(way, epochs) for way, epochs in enumerate(counts)]
    _, left = run(
        dut, sent, idles=idles, stall=stall, count=sum(sum(epochs) for epochs in counts) + stars
    )

    seen = 0
    received = [[] for _ in range(ways)]
    for _, result in left:
        assert result.epoch == seen
        if result.star:
            assert result.way == 0
            seen += 1
        else:
            received[result.way].append(result)
    assert seen == stars
    assert received == [[result for result in rows if not result.star] for rows in sent]


def test_a_star_costs_two_cycles_besides_its_own():
    _, left = run(Merger(RESULT, ways=3), [rows(way, [2, 2]) for way in range(3)], count=13)
    assert [result.star for _, result in left] == [0] * 6 + [1] + [0] * 6
    assert [cycle for cycle, _ in left] == [*range(2, 8), 9, *range(11, 17)]


def test_a_star_waits_for_every_input():
    dut = Merger(RESULT, ways=2)
    _, left = run(dut, [rows(0, [0, 1]), rows(1, [0, 0])], idles=[[], [20]], count=2)
    assert [(cycle, result.star) for cycle, result in left] == [(22, 1), (24, 0)]


def test_a_field_called_star_is_what_punctuates():
    assert Merger(RESULT, ways=2).punctuated
    assert not Merger(8, ways=2).punctuated
    assert not Merger(data.StructLayout({"stars": 1}), ways=2).punctuated


class Renamed(wiring.Component):
    """A tree in the clock domain ``merge``."""

    def __init__(self):
        self.tree = MergeTree(8, inputs=3, fan_in=2)
        super().__init__(self.tree.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.tree = DomainRenamer("merge")(self.tree)
        for outside, inside in zip(self.i, self.tree.i, strict=True):
            wiring.connect(m, wiring.flipped(outside), inside)
        wiring.connect(m, self.tree.o, wiring.flipped(self.o))
        return m


def test_a_tree_may_have_its_own_clock():
    dut = Renamed()
    received = []
    sent = tagged([5] * 3)
    simulate(
        dut,
        *(
            partial(feed, port=port, payloads=payloads, domain="merge")
            for port, payloads in zip(dut.i, sent, strict=True)
        ),
        partial(collect, port=dut.o, count=15, into=received, domain="merge"),
        clocks={"merge": 1e-6},
        domains={"i": "merge", "o": "merge"},
    )
    assert sorted(received) == sorted(sum(sent, []))


def test_impossible_trees_are_refused():
    for fan_in in (1, 9):
        match = rf"^fan-in of a merge tree must be 2 to 8, not {fan_in}$"
        with pytest.raises(ValueError, match=match):
            MergeTree(8, inputs=4, fan_in=fan_in)
    with pytest.raises(ValueError, match=r"^a merge tree needs at least 1 input, not 0$"):
        MergeTree(8, inputs=0)
    with pytest.raises(ValueError, match=r"a depth of 2 or at least 5, not 1$"):
        MergeTree(8, inputs=4, depth=1)
    with pytest.raises(ValueError, match=r"^a merger needs at least 1 input, not 0$"):
        Merger(8, ways=0)
