"""The clocks that the operators promise, on the part of the ULX3S."""

import pytest

from eddyline_sim.synthesis import PROMISED, synthesize_design


@pytest.mark.slow
@pytest.mark.parametrize("design", PROMISED)
def test_an_operator_is_as_fast_as_promised(design):
    """Median of three placements; what ``make synth`` has placed is not placed again."""
    report = synthesize_design(design, seeds=(1, 2, 3), jobs=2)
    assert report.fmax["sync"] >= PROMISED[design], report.text()
