"""WiB+-Tree: balanced while values rise, equal keys in one leaf, borders only once."""

import numpy as np
import pytest

from eddyline.engine.structure import Structure

COUNT, WIDTH = 200_000, 64


def tree(keys, batch=1000):
    one = Structure("wib", capacity=len(keys), partitions=len(keys) // WIDTH)
    one.insert(keys, np.arange(len(keys)), batch=batch)
    return one.report()


@pytest.mark.parametrize("batch", [1, 1000, None])
@pytest.mark.parametrize("order", ["rising", "falling", "random", "organ pipe"])
def test_leaves_stay_balanced(order, batch):
    keys = np.arange(COUNT, dtype=np.uint32) * 7
    match order:
        case "falling":
            keys = keys[::-1]
        case "random":
            np.random.default_rng(1).shuffle(keys)
        case "organ pipe":
            keys = np.concatenate([keys[::2], keys[1::2][::-1]])
    report = tree(keys, batch)
    assert report["ordered"]
    assert report["largest_leaf"] < WIDTH
    # A split leaves two halves, so no leaf is less than half full.
    assert COUNT / WIDTH < report["leaves"] <= 2 * COUNT / WIDTH + 1
    assert report["levels"] == 3  # of 32 to 64 children each


def test_equal_keys_share_a_leaf():
    random = np.random.default_rng(1)
    keys = random.choice(np.array([5, 6, 7, 2**32 - 1], np.uint32), COUNT, p=[0.7, 0.1, 0.1, 0.1])
    report = tree(keys)
    assert report["ordered"]  # borders rise and each key lies between them: nowhere else
    assert report["leaves"] == 4
    assert report["largest_leaf"] == np.count_nonzero(keys == 5)


def test_a_leaf_of_equal_keys_lets_others_go():
    """A leaf that has outgrown its width splits when as many others have come."""
    keys = np.concatenate([np.full(1000, 50), np.random.default_rng(1).permutation(100_000)])
    report = tree(keys.astype(np.uint32))
    assert report["ordered"]
    assert report["largest_leaf"] <= 2 * 1001


def test_room_of_split_leaves_is_used_again():
    """Many entries of one leaf, which then splits, are not lost."""
    random = np.random.default_rng(1)
    many = np.repeat(random.integers(0, 2**32, 20), 5000)
    few = random.integers(0, 2**32, 100_000)
    report = tree(np.concatenate([many, few]).astype(np.uint32))
    assert report["ordered"]
    plain = tree(random.integers(0, 2**32, 200_000).astype(np.uint32))
    assert report["bytes"] < 1.1 * plain["bytes"]
