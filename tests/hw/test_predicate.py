# amaranth: UnusedElaboratable=no
"""The predicate pipeline says what the plan says, one pair per cycle."""

import random
from functools import partial

import pytest
from amaranth.hdl import Cat, ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from eddyline.plan import All, Any_, Compare, Flag, Layout, Order, Plan, Window, Word
from eddyline_hw.layouts import side_layout
from eddyline_hw.predicate import PredicatePipeline

OPERATORS = ("eq", "ne", "le", "ge")
STAGES = (0, 1, 2, 3, 7)
SEED = 3


def layout(*widths, optional=(), flags=0):
    """Return words ``w0``, ``w1``, … of the given widths."""
    words = (
        Word(f"w{number}", width, number in optional, f"w{number}")
        for number, width in enumerate(widths)
    )
    return Layout(tuple(words), tuple(f"flag {number}" for number in range(flags)))


def plan_of(predicate, r, s):
    return Plan(r, s, predicate, Window("unbounded"), Window("unbounded"), Order("none"), False)


def record(side, bits):
    """Unpack the bits that gateware sees into what :meth:`Plan.matches` reads."""
    fields = {"valid": 0}
    for number, word in enumerate(side.words):
        fields[word.name] = bits & (1 << word.width) - 1
        bits >>= word.width
        fields["valid"] |= (bits & 1 if word.optional else 1) << number
        bits >>= word.optional
    fields["valid"] |= bits << len(side.words)
    return fields


class Pipelines(wiring.Component):
    """Several pipelines on the same pair."""

    def __init__(self, pipelines, r, s):
        self.pipelines = pipelines
        self.latency = pipelines[0].latency
        super().__init__(
            {"r": In(side_layout(r)), "s": In(side_layout(s)), "match": Out(len(pipelines))}
        )

    def elaborate(self, platform):
        m = Module()
        for number, pipeline in enumerate(self.pipelines):
            m.submodules += pipeline
            m.d.comb += [
                pipeline.r.eq(self.r),
                pipeline.s.eq(self.s),
                self.match[number].eq(pipeline.match),
            ]
        return m


def matches(dut, pairs):
    """Stream pairs of packed tuples in, one per cycle; return ``match`` of each."""
    found = []

    async def drive(ctx):
        for cycle in range(len(pairs) + dut.latency):
            r, s = pairs[min(cycle, len(pairs) - 1)]
            ctx.set(dut.r.as_value(), r)
            ctx.set(dut.s.as_value(), s)
            *_, match = await ctx.tick().sample(dut.match)
            if cycle >= dut.latency:
                found.append(match)

    top = Module()
    top.domains.sync = ClockDomain()  # exists even if `dut` is purely combinational
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return found


def check(predicates, r, s, pairs, *, stages, make=PredicatePipeline):
    """Compare pipelines of all predicates with :meth:`Plan.matches` on all pairs."""
    pipelines = [make(predicate, r, s, stages=stages) for predicate in predicates]
    assert all(pipeline.latency == stages for pipeline in pipelines)
    found = matches(Pipelines(pipelines, r, s), pairs)
    for number, predicate in enumerate(predicates):
        plan = plan_of(predicate, r, s)
        wrong = [
            (record(r, one), record(s, other))
            for (one, other), bits in zip(pairs, found, strict=True)
            if plan.matches(record(r, one), record(s, other)) != bits >> number & 1
        ]
        assert not wrong, f"{predicate} with {stages} stages is wrong on {wrong[:3]}"


def exhaustive(r, s):
    """Return every pair once, shuffled so that neighbours in the pipeline differ."""
    pairs = [(i, j) for i in range(1 << r.device_bits) for j in range(1 << s.device_bits)]
    random.Random(SEED).shuffle(pairs)
    return pairs


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize(("r_width", "s_width"), [(1, 1), (3, 3), (4, 4), (2, 4), (4, 1)])
def test_every_operator_holds_on_every_pair_of_small_words(r_width, s_width, stages):
    r, s = layout(r_width), layout(s_width)
    predicates = [Compare(0, op, 0) for op in OPERATORS]
    check(predicates, r, s, exhaustive(r, s), stages=stages)


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("r_optional", [(), (0,)])
@pytest.mark.parametrize("s_optional", [(), (0,)])
def test_a_comparison_with_an_invalid_word_is_false(r_optional, s_optional, stages):
    r, s = layout(2, optional=r_optional), layout(3, optional=s_optional)
    predicates = [Compare(0, op, 0) for op in OPERATORS]
    check(predicates, r, s, exhaustive(r, s), stages=stages)


LE, GE, EQ, NE = (Compare(0, op, 0) for op in ("le", "ge", "eq", "ne"))
R_FLAG, S_FLAG = Flag("r", 0), Flag("s", 0)
NESTED = (
    All(()),
    Any_(()),
    All((All(()), Any_(()))),
    Any_((All(()), LE)),
    All((All((All(()),)), GE)),
    Any_((Any_(()), EQ, Any_((R_FLAG,)))),
    R_FLAG,
    All((R_FLAG, S_FLAG)),
    All((LE, GE)),
    All((LE, LE, All((LE,)))),
    All((LE, Any_((NE, All((GE, R_FLAG)))), S_FLAG)),
    Any_((All((LE, R_FLAG)), All((GE, S_FLAG)), All((EQ, Any_((R_FLAG, S_FLAG)))))),
    Any_((All((Any_((All((NE, R_FLAG)), S_FLAG)), LE)), EQ)),
)


@pytest.mark.parametrize("stages", STAGES)
def test_nested_predicates_hold_on_every_pair(stages):
    r, s = layout(2, optional=(0,), flags=1), layout(3, optional=(0,), flags=1)
    check(NESTED, r, s, exhaustive(r, s), stages=stages)


def near(generator, width, other):
    """Return an extreme value, one close to ``other``, one that differs in one bit, or any."""
    ends = (0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1)
    value = generator.choice(
        (
            generator.choice(ends),
            other + generator.randint(-1, 1),
            other ^ 1 << generator.randrange(width),
            generator.getrandbits(width),
        )
    )
    return value & (1 << width) - 1


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize(
    ("r_width", "s_width"),
    [(8, 8), (16, 16), (17, 17), (31, 33), (32, 32), (33, 64), (63, 63), (64, 5), (64, 64)],
)
def test_wide_words_compare_as_unsigned_numbers(r_width, s_width, stages):
    generator = random.Random(SEED)
    r, s = layout(r_width), layout(s_width)
    pairs = []
    for _ in range(300):
        one = near(generator, r_width, generator.getrandbits(r_width))
        pairs.append((one, near(generator, s_width, one)))
    predicates = [Compare(0, op, 0) for op in OPERATORS]
    check(predicates, r, s, pairs, stages=stages)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 16, 24, 64])
@pytest.mark.parametrize("stages", [0, 2, 5])
def test_the_chunk_width_does_not_matter(chunk, stages):
    generator = random.Random(chunk)
    r, s = layout(37), layout(40)
    values = [(near(generator, 37, 0), generator.getrandbits(40)) for _ in range(50)]
    pairs = [(one, near(generator, 40, generator.choice((one, other)))) for one, other in values]
    check(
        [LE, GE, All((LE, GE))],
        r,
        s,
        pairs,
        stages=stages,
        make=partial(PredicatePipeline, chunk=chunk),
    )


@pytest.mark.parametrize("stages", STAGES)
def test_a_band_in_two_dimensions_with_time_words(stages):
    generator = random.Random(SEED)
    r = layout(32, 32, 16, 64, 64, optional=(1,), flags=1)
    s = layout(32, 16, 16, 64, 64, optional=(0, 1))
    predicate = All(
        (
            *(Compare(0, "ge", 0), Compare(1, "le", 0)),
            *(Compare(2, "ge", 1), Compare(2, "le", 2)),
            *(Compare(3, "le", 4), Compare(4, "ge", 3)),
            Any_((R_FLAG, Compare(0, "ne", 2))),
        )
    )
    plan = plan_of(predicate, r, s)
    pairs, outcomes = [], []
    while len(pairs) < 400 or min(outcomes.count(True), outcomes.count(False)) < 40:
        # Few bits differ from all zeros or all ones, so that all comparisons often hold at once.
        pair = [
            sum(generator.randrange(2) << bit for bit in generator.sample(range(bits), 4))
            for bits in (r.device_bits, s.device_bits)
        ]
        pair[0] ^= generator.choice((0, (1 << r.device_bits) - 1))
        pair[1] ^= generator.choice((0, (1 << s.device_bits) - 1))
        pairs.append(tuple(pair))
        outcomes.append(plan.matches(record(r, pair[0]), record(s, pair[1])))
    check([predicate], r, s, pairs, stages=stages)


class Skewed(PredicatePipeline):
    """A register is missing on the way of the second comparison."""

    def elaborate(self, platform):
        m = Module()
        early, late, both = Signal(), Signal(), Signal()
        m.d.sync += [early.eq(self.r.w0 <= self.s.w0), late.eq(early)]
        m.d.sync += both.eq(self.r.w0 >= self.s.w0)
        m.d.comb += self.match.eq(Cat(late, both).all())
        return m


class Signed(PredicatePipeline):
    """Words are taken as signed numbers."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.match.eq(self.r.w0.as_signed() <= self.s.w0.as_signed())
        return m


@pytest.mark.parametrize(
    ("wrong", "predicate", "stages"), [(Skewed, All((LE, GE)), 2), (Signed, LE, 0)]
)
def test_the_check_catches_a_wrong_pipeline(wrong, predicate, stages):
    r, s = layout(3), layout(3)
    check([predicate], r, s, exhaustive(r, s), stages=stages)
    with pytest.raises(AssertionError, match="is wrong on"):
        check([predicate], r, s, exhaustive(r, s), stages=stages, make=wrong)


def test_impossible_pipelines_are_refused():
    r = s = layout(8)
    with pytest.raises(ValueError, match="at least 0 stages, not -1"):
        PredicatePipeline(LE, r, s, stages=-1)
    with pytest.raises(ValueError, match="at least 1 bit, not 0"):
        PredicatePipeline(LE, r, s, chunk=0)
    with pytest.raises(ValueError, match=r"no operator 'lt' \(known: eq, ge, le, ne\)"):
        PredicatePipeline(Compare(0, "lt", 0), r, s)
    with pytest.raises(TypeError, match="not 'TRUE'"):
        PredicatePipeline("TRUE", r, s)
