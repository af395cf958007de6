"""The tables of what units store and are sent are those that the benchmark prints."""

from itertools import islice
from pathlib import Path

from bench import biclique

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_the_guide_has_the_measured_tables():
    tables = (line for line in biclique.measure() if line.startswith("|"))
    rows = len(biclique.CUTS) + len(biclique.BAND_CUTS) + 2
    for line in islice(tables, rows):
        assert " ".join(line.split()) in TEXT
