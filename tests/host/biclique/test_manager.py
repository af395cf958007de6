"""The two-phase manager on a rate that rises, jitters and falls: figure 12 of BiStream."""

import pytest

from eddyline.biclique.manager import Manager

GIB = 1 << 30
CAPACITY = 3 * GIB // 2
WINDOW = 5  # minutes


def scaled(rates: list[float], units: int) -> list[tuple[int, int]]:
    """Run a window of minutes over a rate in GiB per minute; return the changes by minute.

    Memory follows the rate as the window does, and what is stored does not move: the load of a unit
    is its share of all that is in the window.
    """
    manager = Manager(CAPACITY)
    changes = []
    for minute in range(len(rates)):
        held = sum(rates[max(0, minute - WINDOW + 1) : minute + 1]) * GIB
        change = manager.observe([int(held / units)] * units)
        if change:
            units += change
            changes.append((minute, change))
    return changes


def test_figure_12():
    """More units above 1.2 GB, fewer below 450 MB, and none for a rise or fall of two minutes."""
    steady, high, low = [2.4] * 10, [3.1] * 12, [0.9] * 18
    jitter = [6.0, 2.0, 2.0, 2.0, 2.4, 3.1, 3.1, 3.1]
    changes = scaled(steady + high + jitter + low, units=12)
    assert [change > 0 for _, change in changes] == [True, False]
    (grown, more), (shrunk, fewer) = changes
    # The load passes 1.2 GB in the third minute of the higher rate; then the same is said twice.
    assert (more, fewer) == (6, -12)
    assert len(steady) + 2 <= grown < len(steady + high)
    assert shrunk > len(steady + high + jitter)


def test_after_a_change_the_load_is_the_target():
    manager = Manager(100, agreeing=1)
    for units in (1, 7, 12):
        for load in (95, 10):
            wanted = units + manager.observe([load] * units)
            assert 0.3 < load * units / (wanted * 100) <= 0.6 or wanted == 1


@pytest.mark.parametrize("loads", [[81, 81, 79, 81, 81, 79, 81, 81], [81, 81, 29, 81, 81, 29]])
def test_what_does_not_last_changes_nothing(loads):
    manager = Manager(100)
    assert [manager.observe([load]) for load in loads] == [0] * len(loads)


def test_three_equal_decisions_change_the_units():
    manager = Manager(100)
    assert [manager.observe([81, 81]) for _ in range(7)] == [0, 0, 1, 0, 0, 1, 0]
    assert [manager.observe([29, 29]) for _ in range(4)] == [0, 0, -1, 0]
    assert [manager.observe([0]) for _ in range(4)] == [0] * 4  # one unit is the least


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"capacity": 0}, "capacity=0"),
        ({"capacity": 1, "low": 0.7}, "not in order"),
        ({"capacity": 1, "agreeing": 0}, "agreeing=0"),
    ],
)
def test_settings_that_make_no_sense(options, says):
    with pytest.raises(ValueError, match=says):
        Manager(**options)
