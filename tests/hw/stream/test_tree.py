from hypothesis import given
from hypothesis import strategies as st

from eddyline_hw.stream.tree import height, split


@given(leaves=st.integers(1, 300), fan=st.integers(2, 8))
def test_a_tree_of_its_height_is_just_large_enough(leaves, fan):
    levels = height(leaves, fan)
    assert fan**levels >= leaves
    assert levels == 0 or fan ** (levels - 1) < leaves


@given(leaves=st.integers(1, 100), span=st.integers(1, 20))
def test_pieces_are_even_and_complete(leaves, span):
    pieces = split(list(range(leaves)), span=span)
    sizes = [len(piece) for piece in pieces]
    assert sum(pieces, []) == list(range(leaves))
    assert len(pieces) == -(-leaves // span)
    assert max(sizes) <= span
    assert max(sizes) - min(sizes) <= 1
