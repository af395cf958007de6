"""Tuples for a SplitJoin operator, and what has to come from it, star by star."""

from collections import Counter

from eddyline.plan import Plan
from sim.benches.joins import difference

__all__ = ["ANSWER", "PartedTraffic", "Parts"]

ANSWER = ("answer",)  # a star that answers a message


class PartedTraffic:
    """Messages for an operator, and the parts that it has to answer.

    A part is the pairs between one star and the next, and the star that closes it:
    ``(final, side, id)`` or :data:`ANSWER`.

    Parameters
    ----------
    plan : str
        The plan as JSON. Words of time are compared like any others.
    cores : int
        Number of cores.

    Members
    -------
    rows : dict
        Side to the newest tuples that its window holds; to be set behind a flush only.
    order : tuple
        Name of the precision, and interval of stars; to be set behind a star only.
    off, doubtful : set
        Cores that keep nothing, and whose tuples are gone; cores of which nobody knows.
    messages, parts : list
        What to send, and what has to come.
    streams : dict
        Side to the parts that have to come where each side comes out on its own.
    optional : set
        Pairs that a doubtful core may have found.
    singles : list
        Side, id and pairs of each arrival, and the same pairs by interval.
    turns : list
        For each message, the side and core that has to keep it; none for a punctuation.
    compared, unstored : Counter
        By core, the pairs that it has compared and, by side and core, the tuples that it should
        have kept while it was off.
    forgotten : list
        Side and words of each tuple that left, and words of the one that pushed it out.
    """

    def __init__(self, plan, *, cores, rows, order):
        self.plan = Plan.from_json(plan)
        self.cores = cores
        self.rows = rows
        self.order = order
        self.off, self.doubtful, self.optional = set(), set(), set()
        self.messages, self.parts, self.forgotten, self.singles, self.turns = [], [], [], [], []
        self.streams = {"r": [], "s": []}
        self.compared, self.unstored = Counter(), Counter()
        self.ids = {"r": 0, "s": 0}
        self._held = {"r": [], "s": []}
        self._open, self._count = {"r": [], "s": []}, 0

    def tuple(self, side, words):
        """Let a tuple arrive."""
        number = self.ids[side]
        self.ids[side] = (number + 1) % (1 << self.plan.id_bits)
        entry = {side: {"id": number, "words": words}}
        self.messages.append({"star": 0, "flush": 0, "side": int(side == "s"), "entry": entry})
        mode, every = self.order
        intervals = self._intervals(side, number, words)
        mine, size = self._held[side], self.rows[side]
        if len(mine) >= size:
            self.forgotten.append((side, mine[-size][1], words))
        owner = len(mine) % self.cores
        self.turns.append((side, owner))
        self.unstored[side, owner] += owner in self.off
        mine.append((number, words))
        self.singles.append((side, number, sum(intervals, []), intervals))
        if mode == "INNER":
            for start in range(0, len(intervals), every):
                final = start + every >= len(intervals)
                self._open[side] = sum(intervals[start : start + every], [])
                self._close((final, side, number), side)
            return
        self._open[side] += sum(intervals, [])
        self._count += 1
        if mode == "OUTER" and self._count == every:
            self._close((True, side, number), side if every == 1 else "rs")

    def _intervals(self, side, number, words):
        """Return the pairs of an arrival by the round in which the partner came, oldest first.

        There are as many as a core has slots, and one for the round in progress.
        """
        other = "sr"[side == "s"]
        held, size = self._held[other], self.rows[other]
        slots = -(-size // self.cores)
        intervals = [[] for _ in range(slots + 1)]
        first = len(held) // self.cores - slots
        for place in range(max(0, len(held) - size), len(held)):
            owner = place % self.cores
            if owner in self.off:
                continue
            self.compared[owner] += owner not in self.doubtful
            partner, row = held[place]
            r, s = (words, row) if side == "r" else (row, words)
            if self.plan.matches(r | {"valid": -1}, s | {"valid": -1}):
                pair = (number, partner) if side == "r" else (partner, number)
                intervals[place // self.cores - first].append(pair)
                if owner in self.doubtful:
                    self.optional.add(pair)
        return intervals

    def _close(self, star, sides="rs"):
        """Let a star come on the streams of these sides."""
        self.parts.append((self._open["r"] + self._open["s"], star))
        for side in sides:
            self.streams[side].append((self._open[side], star))
        self._open, self._count = {"r": [], "s": []}, 0

    def random_tuple(self, random, *, values, r_share=0.5):
        """Let a tuple arrive that matches about every ``values``-th of the other side."""
        x = random.randrange(values)
        if random.random() < r_share:
            self.tuple("r", {"x": x})
        else:
            self.tuple("s", {"lo": x, "hi": x + random.randrange(2)})

    def star(self, *, flush=False):
        """Let a punctuation arrive."""
        self.messages.append({"star": 1, "flush": int(flush), "side": 0, "entry": 0})
        self.turns.append(None)
        self._close(ANSWER)
        if flush:
            self._held = {"r": [], "s": []}


class Parts:
    """What came out of the operator, part by part."""

    def __init__(self, monitor):
        self.pairs, self.stars = [[]], []
        monitor.add_callback(self._note)

    def _note(self, item):
        if not item["star"]:
            self.pairs[-1].append((item["r_id"], item["s_id"]))
            return
        side = "rs"[item["side"]]
        final = (bool(item["final"]), side, item[f"{side}_id"])
        self.stars.append(ANSWER if item["sync"] else final)
        self.pairs.append([])

    @property
    def answers(self):
        """How many messages were answered."""
        return self.stars.count(ANSWER)

    def check(self, parts, *, exact=(), optional=()):
        """Compare with the ``parts`` of a traffic; in those numbered ``exact`` also the order.

        Pairs in ``optional`` may be missing.
        """
        if optional:
            came = {pair for pairs in self.pairs for pair in pairs}
            absent = set(optional) - came
            parts = [
                ([pair for pair in pairs if pair not in absent], star) for pairs, star in parts
            ]
        wrong = difference(map(Counter, self.pairs), [Counter(pairs) for pairs, _ in parts])
        assert not wrong, wrong
        for number, (pairs, star) in enumerate(parts):
            assert number < len(self.stars), f"star {number}, {star}, did not come"
            got = self.stars[number]
            assert got == star, f"star {number} is {got}, not {star}"
            if number in exact:
                got = self.pairs[number]
                assert got == pairs, f"before star {number} came {got}, not {pairs}"
        more = self.stars[len(parts) :]
        assert not more, f"{len(more)} stars too many, the first is {more[0]}"
