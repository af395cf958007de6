"""Bench of the round-robin arbiter: every grant against a list that rotates."""

import cocotb
from cocotb.triggers import FallingEdge

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters

WAYS = parameters()["ways"]
COVERAGE = Coverage(
    "no request", "one request", "simultaneous arrival", "wrap-around", "grant not used"
)


async def run(dut, requests, advances):
    """Apply one pair of values per cycle and compare the grant with the expectation."""
    bench = Bench(dut)
    dut.requests.value = 0
    dut.advance.value = 0
    await bench.start()
    line = list(range(WAYS))  # who is served first comes first
    waited = [0] * WAYS
    for request, advance in zip(requests, advances, strict=True):
        dut.requests.value = request
        dut.advance.value = advance
        # The decision belongs to the same cycle: it is there before the next rising edge.
        await FallingEdge(dut.clk)
        pending = [way for way in line if request >> way & 1]
        grant = int(dut.grant.value)
        assert grant & ~request == 0, f"grant {grant:b} without a request in {request:b}"
        assert grant.bit_count() == bool(request), f"grant {grant:b} of requests {request:b}"
        expected = 1 << pending[0] if pending else 0
        assert grant == expected, f"grant {grant:b}, expected {expected:b} of {request:b}"
        COVERAGE.hit("no request", not pending)
        COVERAGE.hit("one request", len(pending) == 1)
        COVERAGE.hit("simultaneous arrival", len(pending) > 1)
        COVERAGE.hit("grant not used", pending and not advance)
        if pending and advance:
            served = pending[0]
            COVERAGE.hit("wrap-around", served < line[-1])
            line = [way % WAYS for way in range(served + 1, served + 1 + WAYS)]
            for way in range(WAYS):
                waited[way] = waited[way] + 1 if way in pending[1:] else 0
                assert waited[way] < WAYS, f"input {way} waited for {waited[way]} others"
        await bench.cycles(1)


@cocotb.test()
async def all_inputs_take_turns(dut):
    await run(dut, [(1 << WAYS) - 1] * 3 * WAYS, [1] * 3 * WAYS)


@cocotb.test()
@cocotb.parametrize(density=(0.1, 0.5, 0.9), used=(0.3, 1.0))
async def random_requests_are_served_in_turn(dut, density, used):
    random = Bench(dut).random
    requests = [
        sum((random.random() < density) << way for way in range(WAYS)) for _ in range(40 * WAYS)
    ]
    await run(dut, requests, [random.random() < used for _ in requests])


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
