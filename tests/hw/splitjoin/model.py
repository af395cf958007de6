"""What a SplitJoin operator has to give, by brute force."""

from collections import Counter

from eddyline_hw.splitjoin.precision import Precision

__all__ = ["check", "expected_parts"]


def expected_parts(plan, arrivals, windows, *, cores, mode=Precision.NONE, every=1, lost=()):
    """Return the lists of pairs that stars have to close, and the last list, which none closes.

    Each part comes with the star's ``(final, side, id)``. The order within a part is any, unless
    it has the pairs of one interval only. Tuples ``(side, number)`` in ``lost`` are in no window.
    """
    held = {"r": [], "s": []}
    parts, pairs, arrived = [], [], 0
    for side, number, words in arrivals:
        other = "sr"[side == "s"]
        size = windows[other]
        slots = -(-size // cores)
        round_now = len(held[other]) // cores
        part_of = {}
        for place, (partner, row) in list(enumerate(held[other]))[-size:]:
            r, s = (words, row) if side == "r" else (row, words)
            if (other, partner) in lost or not plan.matches(r | {"valid": -1}, s | {"valid": -1}):
                continue
            pair = (number, partner) if side == "r" else (partner, number)
            interval = place // cores - round_now + slots
            part_of.setdefault(interval // every, []).append(pair)
        held[side].append((number, words))
        arrived += 1
        if mode is Precision.INNER:
            count = -(-(slots + 1) // every)
            for part in range(count):
                final = part == count - 1
                parts.append((part_of.pop(part, []), (final, side, number)))
            assert not part_of
            continue
        pairs += sum(part_of.values(), [])
        if mode is Precision.OUTER and arrived % every == 0:
            parts.append((pairs, (True, side, number)))
            pairs = []
    return parts, pairs


def check(results, parts, rest, *, exact=False):
    """Compare results, up to the star that ends them, with what is expected.

    With ``exact`` also the order within a part has to be the expected one.
    """
    found = [[]]
    stars = []
    for one in results:
        if one.star:
            stars.append((bool(one.final), "rs"[one.side], one.s_id if one.side else one.r_id))
            found.append([])
        else:
            found[-1].append((one.r_id, one.s_id))
    assert stars == [star for _, star in parts]
    for got, (wanted, star) in zip(found, [*parts, (rest, None)], strict=True):
        if exact:
            assert got == wanted, star
        else:
            assert Counter(got) == Counter(wanted), star
