"""The prover itself: it proves what is true, for the right reason, and shows what is not."""

import pytest
from amaranth import Assert, Assume, ClockDomain, Module, Signal

from tests.formal.prove import anyconst, check
from tests.formal.trace import table


def counter(limit):
    """Return a module with a counter from 0 to 3 that is claimed to stay below ``limit``."""
    m = Module()
    m.domains.sync = clock = ClockDomain("sync", reset_less=True)
    number = Signal(4, name="number")
    with m.If(number == 3):
        m.d.sync += number.eq(0)
    with m.Else():
        m.d.sync += number.eq(number + 1)
    m.d.comb += Assert(number < limit)
    return m, [clock.clk], number


def test_a_broken_claim_is_shown_step_by_step():
    m, free, _ = counter(3)
    with pytest.raises(AssertionError) as error:
        check(m, free, depth=8)
    first, *trace = str(error.value).splitlines()
    assert first.endswith("does not hold")
    assert "test_prove.py" in first
    assert "number" + " " * 22 + "0 1 2 3" in trace


def test_a_depth_too_small_sees_nothing():
    check(*counter(3)[:2], depth=3)


def test_a_claim_that_is_true_but_not_inductive_is_refused():
    m, free, _ = counter(10)
    with pytest.raises(AssertionError, match="is not inductive over 1 cycles"):
        check(m, free, depth=8, induction=1)


def test_an_invariant_closes_the_induction():
    m, free, number = counter(10)
    m.d.comb += Assert(number < 4)
    check(m, free, depth=2, induction=1)


def test_induction_without_its_base_is_refused():
    m, free, _ = counter(4)
    with pytest.raises(ValueError, match="induction over 3 cycles needs that depth, not 2"):
        check(m, free, depth=2, induction=3)


def test_assumptions_that_contradict_each_other_prove_nothing():
    m, free, number = counter(3)
    m.d.comb += Assume(number > 5)
    with pytest.raises(RuntimeError, match="did not decide"):
        check(m, free, depth=4)


def test_a_constant_is_any_value_but_one():
    m, free, number = counter(4)
    value = anyconst(m, free, 4, "value")
    seen = Signal(name="seen")
    with m.If(number == value):
        m.d.sync += seen.eq(1)
    m.d.comb += Assert(~seen)
    with pytest.raises(AssertionError, match=r"value +([0-3]) \1"):
        check(m, free, depth=6)


def test_a_table_has_a_column_per_step():
    vcd = "\n".join([
        "$scope module top $end", "$var wire 4 n0 wide $end", "$var wire 1 n1 flag $end",
        "$scope module inner $end", "$var wire 1 n2 hidden $end", "$upscope $end", "$upscope $end",
        "$enddefinitions $end", "#0", "b1010 n0", "b0 n1", "#10", "b1011 n0", "#20",
    ])  # fmt: skip
    assert table(vcd).splitlines() == [f"{'flag':<28}0 0", f"{'wide':<28}a b"]
