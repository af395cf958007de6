"""The tables of what units store and are sent are those of the guide, and what the paper says."""

import re
from pathlib import Path

import pytest

from bench import biclique

TEXT = (Path(__file__).parents[2] / "docs" / "spark-measured.md").read_text()
NEAR = {"rel": 0.03}  # heads of envelopes, and hashes that are not quite even


@pytest.fixture(scope="module")
def tables():
    """Return the rows of the four tables, as lines: equality, band, memory over time, volumes."""
    found: list[list[str]] = [[]]
    for line in biclique.measure():
        if not line.startswith("|"):
            found.append([])
        elif not line.startswith("| units"):
            found[-1].append(" ".join(line.split()))
    return found


def numbers(line: str) -> list[float]:
    return [float(one) for one in re.findall(r"\d+(?:\.\d+)?", line)]


def test_the_guide_has_the_measured_tables(tables):
    equality, band, held, volumes = tables
    assert [len(one) for one in tables] == [
        len(biclique.CUTS), len(biclique.BAND_CUTS), len(biclique.WINDOWS), len(biclique.SQUARES),
    ]  # fmt: skip
    for line in (*equality, *band, *volumes):
        assert line in TEXT
    *first, last = (str(numbers(line)[-1]) for line in held)
    assert f"{', '.join(first)} and {last} batches" in TEXT


def test_units_store_and_are_sent_what_the_equations_say(tables):
    """Equations 1, 5 and 6, figures 10 and 11. What is sent to be stored is not sent once more."""
    for line in tables[0]:
        *cut, largest, stored, by_1, sent, by_5_or_6 = numbers(line)
        assert stored == pytest.approx(by_1, **NEAR)
        if "matrix" in line:
            rows, columns = cut
            assert by_1 == by_5_or_6 == (rows + columns) / 2
            assert (sent, largest) == pytest.approx((by_5_or_6, by_1 / rows / columns), **NEAR)
        else:
            units, subgroups = cut
            assert (by_1, by_5_or_6) == (1, units / subgroups + 1)
            assert sent == pytest.approx(by_5_or_6 - 1, **NEAR)
            # Figure 10: memory of a unit goes down as units are added.
            assert largest == pytest.approx(1 / units, rel=0.1)


def test_a_band_is_sent_to_one_subgroup_or_two(tables):
    for line in tables[1]:
        units, subgroups, largest, stored, sent = numbers(line)
        assert (largest * units, stored) == pytest.approx((1, 1), rel=0.06)
        copies = 1 if subgroups == 1 else 1 + 1 / 16  # at the borders of stripes
        assert sent == pytest.approx(copies * units / subgroups, **NEAR)


def test_a_unit_holds_its_window_and_the_batch_at_hand(tables):
    """Figure 6.b."""
    for line, window in zip(tables[2], biclique.WINDOWS, strict=True):
        steps = range(5, biclique.STEPS + 1, 5)
        assert numbers(line) == [window, *(min(step, window + 1) for step in steps)]


def test_what_fits_grows_with_units_or_with_their_square_root(tables):
    """Figure 10, the maximum processing volume."""
    found = [numbers(line) for line in tables[3]]
    assert [units for units, *_ in found] == [side**2 for side in biclique.SQUARES]
    (_, biclique_, *_, matrix, _), least = found[0], biclique.SQUARES[0]
    for side, (_, by_units, each, by_root, each_of_matrix) in zip(
        biclique.SQUARES, found, strict=True
    ):
        grown = side / least
        assert (by_units / biclique_, by_root / matrix) == pytest.approx(
            (grown**2, grown), rel=0.05
        )
        assert (each * side**2, each_of_matrix * side**2) == pytest.approx(
            (by_units, by_root), rel=0.01
        )
