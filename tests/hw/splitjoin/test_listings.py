"""What the paper prints of orders and stars, played in a few lines, beside what we do instead."""

import pytest

W = 3  # slots of a core
END = None  # a star


def stored(cores, count):
    """Return the newest partners by core, oldest first; partner n is kept by core n mod k."""
    oldest = max(0, count - W * cores)
    return [[n for n in range(oldest, count) if n % cores == core] for core in range(cores)]


def in_a_tree(streams, begin):
    """Merge streams of intervals in a binary tree; ``begin`` says which branch is served first."""
    while len(streams) > 1:
        merged = []
        for at in range(0, len(streams), 2):
            pair = streams[at : at + 2]
            if begin(pair):
                pair = pair[::-1]
            merged.append([sum(one, []) for one in zip(*pair, strict=True)])
        streams = merged
    return sum(streams[0], [])


def from_the_oldest(cores, count):
    """Let a star be behind every partner, and every merger begin where the oldest is."""
    streams = [[[n] for n in one] for one in stored(cores, count)]
    oldest = count - W * cores
    return in_a_tree(streams, lambda pair: oldest in pair[1][0])


def by_intervals(cores, count):
    """Let a star be behind every round, and every merger begin at the same branch."""
    first = count // cores - W
    streams = [
        [[n for n in one if n // cores == number] for number in range(first, first + W + 1)]
        for one in stored(cores, count)
    ]
    return in_a_tree(streams, lambda _: False)


@pytest.mark.parametrize("cores", [2, 4, 8])
def test_a_tree_that_begins_at_the_oldest_gets_the_order_wrong(cores):
    """Section 5.2: only the first core of either half may hold the oldest."""
    counts = range(W * cores, (W + 1) * cores)
    right = [n % cores for n in counts if from_the_oldest(cores, n) == [*range(n - W * cores, n)]]
    assert right == [0, cores // 2]


@pytest.mark.parametrize("cores", [2, 4, 8])
def test_intervals_in_a_fixed_order_of_cores_are_right_in_any_tree(cores):
    for count in range(W * cores, (W + 2) * cores):
        assert by_intervals(cores, count) == [*range(count - W * cores, count)]


def stars(partners, every):
    """Return where algorithm 3 puts its stars: behind every N comparisons."""
    return [END for n in range(len(partners)) if (n + 1) % every == 0]


def test_stars_by_comparisons_are_not_as_many_on_all_cores():
    """Algorithm 3: sub-windows whose sizes differ lose step; beyond their size there is no star."""
    assert {len(stars(one, 1)) for one in stored(4, 10)} == {2, 3}
    assert {len(stars(one, W + 1)) for one in stored(4, 10)} == {0}
