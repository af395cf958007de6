"""The clocks that the operators promise, on the part of the ULX3S."""

import pytest

from eddyline_sim.synthesis import synthesize_design


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "megahertz"),
    [
        ("handshake-lockstep-4", 150),
        ("handshake-asynchronous-4", 170),
        ("splitjoin-lutram-4", 180),
        ("splitjoin-lutram-8", 180),
        ("splitjoin-bram-4", 180),
        ("splitjoin-bram-8", 180),
    ],
)
def test_an_operator_is_as_fast_as_promised(design, megahertz):
    """Median of three placements; what ``make synth`` has placed is not placed again."""
    report = synthesize_design(design, seeds=(1, 2, 3), jobs=2)
    assert report.fmax["sync"] >= megahertz, report.text()
