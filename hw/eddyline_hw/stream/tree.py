"""The shape of balanced trees."""

__all__ = ["height", "split"]


def height(leaves, fan):
    """Return ``ceil(log(leaves, fan))``, exactly."""
    levels = 0
    while fan**levels < leaves:
        levels += 1
    return levels


def split(leaves, *, span):
    """Cut a list into as few pieces of at most ``span`` as possible, as even as possible.

    A tree of height ``h`` that is cut from the root down with spans ``fan ** (h - 1)``, …, ``fan``,
    ``1`` has at most ``fan`` branches at each node, and neighbours carry equally many leaves, give
    or take one.
    """
    pieces = -(-len(leaves) // span)
    bounds = [len(leaves) * index // pieces for index in range(pieces + 1)]
    return [leaves[low:high] for low, high in zip(bounds, bounds[1:], strict=False)]
