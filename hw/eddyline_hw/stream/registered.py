"""Trees of registers for what is never stalled: told to many at once, or gathered from many."""

from amaranth import Cat, Signal

__all__ = ["gather", "tell", "tree_depth"]


def tree_depth(leaves, fan):
    """Return the levels of a tree that reaches so many leaves; at least one."""
    depth = 1
    while fan**depth < leaves:
        depth += 1
    return depth


def tell(m, source, leaves, *, fan=4):
    """Register ``source`` down a tree; return a copy per leaf, all of the same cycle.

    The copies arrive ``tree_depth(leaves, fan)`` cycles later.
    """
    depth = tree_depth(leaves, fan)
    level = [source]
    for height in reversed(range(depth)):
        width = -(-leaves // fan**height)
        copies = [
            Signal.like(source, name=f"told_{depth - height}_{index}") for index in range(width)
        ]
        m.d.sync += [
            copy.eq(level[index * len(level) // width]) for index, copy in enumerate(copies)
        ]
        level = copies
    return level


def gather(m, bits, *, fan=4):
    """Register the OR of ``bits`` up a tree of ``tree_depth(len(bits), fan)`` levels."""
    for level in range(tree_depth(len(bits), fan)):
        groups = [bits[start : start + fan] for start in range(0, len(bits), fan)]
        bits = [Signal(name=f"any_{level}_{index}") for index in range(len(groups))]
        m.d.sync += [bit.eq(Cat(group).any()) for bit, group in zip(bits, groups, strict=True)]
    return bits[0]
