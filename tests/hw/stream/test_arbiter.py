# amaranth: UnusedElaboratable=no
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline_hw.stream.arbiter import RoundRobinArbiter
from tests.hw.bench import simulate

CYCLES = st.tuples(st.integers(0, 255), st.booleans())


def grants(dut, cycles):
    """Apply (requests, advance) cycle by cycle and return the grants of the same cycles."""
    seen = []

    async def apply(ctx):
        for requests, advance in cycles:
            ctx.set(dut.requests, requests)
            ctx.set(dut.advance, advance)
            seen.append(ctx.get(dut.grant))
            await ctx.tick()

    simulate(dut, apply)
    return seen


def expected(ways, cycles):
    """Return the grants of a token that walks from input to input."""
    token, result = 0, []
    for requests, advance in cycles:
        order = [(token + step) % ways for step in range(ways)]
        winner = next((way for way in order if requests >> way & 1), None)
        result.append(0 if winner is None else 1 << winner)
        if winner is not None and advance:
            token = (winner + 1) % ways
    return result


@settings(max_examples=60, deadline=None)
@given(ways=st.integers(1, 8), cycles=st.lists(CYCLES, max_size=30))
def test_the_token_passes_over_idle_inputs(ways, cycles):
    cycles = [(requests % (1 << ways), advance) for requests, advance in cycles]
    assert grants(RoundRobinArbiter(ways), cycles) == expected(ways, cycles)


def test_every_choice_of_four_is_right_from_every_token():
    cycles = []
    for token in range(4):
        for requests in range(16):
            cycles += [(1 << (token + 3) % 4, True), (requests, False)]
    assert grants(RoundRobinArbiter(4), cycles) == expected(4, cycles)


@settings(max_examples=30, deadline=None)
@given(ways=st.integers(2, 8), others=st.lists(st.integers(0, 255), min_size=8, max_size=8))
def test_a_pending_input_waits_for_at_most_all_others(ways, others):
    cycles = [((other | 1) % (1 << ways), True) for other in others]
    assert 1 in grants(RoundRobinArbiter(ways), [(1, True), *cycles])[1 : ways + 1]


def test_a_grant_that_is_not_used_stays():
    assert grants(RoundRobinArbiter(3), [(0b110, False)] * 3 + [(0b110, True)] * 2) == [
        0b010, 0b010, 0b010, 0b010, 0b100,
    ]  # fmt: skip


def test_no_inputs_are_refused():
    with pytest.raises(ValueError, match=r"^an arbiter needs at least 1 input, not 0$"):
        RoundRobinArbiter(0)
