from hypothesis import example, given, settings
from hypothesis import strategies as st

from eddyline_hw.stream.contract import ContractChecker
from tests.hw.bench import simulate

CYCLE = st.tuples(st.booleans(), st.booleans(), st.integers(0, 1))


def first_breach(cycles):
    """Return the first cycle that withdraws or edits an offer, or None."""
    for number in range(1, len(cycles)):
        valid, ready, payload = cycles[number - 1]
        if valid and not ready and cycles[number][::2] != (valid, payload):
            return number
    return None


@settings(max_examples=100, deadline=None)
@given(cycles=st.lists(CYCLE, max_size=8))
@example(cycles=[(True, False, 1), (True, True, 1), (False, False, 0)])  # held, taken, gone
@example(cycles=[(True, False, 1), (False, False, 1), (True, True, 1)])  # withdrawn and back
@example(cycles=[(True, False, 1), (True, False, 0), (True, True, 1)])  # edited and back
def test_a_breach_is_seen_at_once_and_remembered(cycles):
    dut = ContractChecker(1)
    breach = first_breach(cycles)

    async def watch(ctx):
        for number, (valid, ready, payload) in enumerate(cycles):
            ctx.set(dut.valid, valid)
            ctx.set(dut.ready, ready)
            ctx.set(dut.payload, payload)
            assert ctx.get(dut.violated) == (breach is not None and number > breach)
            assert ctx.get(dut.broken) or number != breach
            await ctx.tick()
        assert ctx.get(dut.violated) == (breach is not None)

    simulate(dut, watch)
