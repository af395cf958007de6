"""Both models join the same, whatever they cost."""

import re

import pytest

from bench import models


def test_all_models_find_the_same_pairs(monkeypatch):
    monkeypatch.setattr(models, "VALUES", 1 << 9)
    lines = list(models.measure(batches=5, rows=1 << 8))
    for on, first in (("r.k = s.k", 0), ("abs(r.k - s.k) <= 3", len(lines) // 2)):
        assert lines[first].startswith(f"{on}, 1,280 rows of each side")
        found = [line.split(" | ") for line in lines[first + 2 : first + 2 + len(models.MODELS)]]
        assert [one[0].lstrip("| ") for one in found] == list(models.MODELS)
        for one in found:
            assert all(float(re.sub(r"[| ]", "", cell)) > 0 for cell in one[1:])
        assert found[0][1:7] == ["1.00"] * 6  # the matrix is compared with itself


def test_a_model_that_loses_pairs_is_noticed(monkeypatch):
    monkeypatch.setattr(models, "VALUES", 1 << 9)
    right = models.Routing.shown

    def without_the_last(self, side, line):
        units = right(self, side, line)
        return units if self.columns else units[:-1]

    monkeypatch.setattr(models.Routing, "shown", without_the_last)
    with pytest.raises(AssertionError, match="8 units, random finds"):
        list(models.measure(batches=models.QUARTERS, rows=1 << 8))
