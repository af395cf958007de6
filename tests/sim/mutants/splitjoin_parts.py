"""Result networks of SplitJoin that are wrong."""

from tests.sim.mutants.mutant import Mutant, Patch
from tests.sim.split_blocks import collected, combined

__all__ = ["MUTANTS"]

MUTANTS = [
    Mutant(
        "merger with items that pass a star",
        Patch(
            "eddyline_hw.splitjoin.merger",
            "in_sequence & stars[number + 1 :].all()",
            "in_sequence",
        ),
        lambda module: collected(3, fan_in=4, bound=3, PunctuatedMerger=module.PunctuatedMerger),
        r"o: a star overtook|o: got .*, expected one of",
    ),
    Mutant(
        "merger that is not in sequence",
        Patch(
            "eddyline_hw.splitjoin.merger",
            "Mux(ordered, in_sequence, self._turn[number])",
            "self._turn[number]",
        ),
        lambda module: collected(5, fan_in=2, bound=8, PunctuatedMerger=module.PunctuatedMerger),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "merger that goes on in sequence without who is late",
        Patch(
            "eddyline_hw.splitjoin.merger",
            "in_sequence = stars[:number].all()",
            "in_sequence = ~others[:number].any()",
        ),
        lambda module: collected(3, fan_in=4, bound=3, PunctuatedMerger=module.PunctuatedMerger),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "merger that takes without room",
        Patch(
            "eddyline_hw.splitjoin.merger",
            "others[number] & self.room, stars[number] & self.room",
            "others[number], stars[number]",
        ),
        lambda module: collected(3, fan_in=4, bound=3, PunctuatedMerger=module.PunctuatedMerger),
        r"a queue was overrun|o: got .*, expected",
    ),
    Mutant(
        "merger whose stars have no flags",
        Patch(
            "eddyline_hw.splitjoin.merger",
            "Value.cast(shown) & self._barrier.replicate(item_layout().size)",
            "0",
        ),
        lambda module: collected(3, fan_in=4, bound=3, PunctuatedMerger=module.PunctuatedMerger),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "merger whose turn does not move",
        Patch(
            "eddyline_hw.splitjoin.merger",
            "next_owner(self._owner, served, [1 << way for way in ways])",
            "next_owner(0, served, [1 << way for way in ways])",
        ),
        lambda module: collected(5, fan_in=2, bound=8, PunctuatedMerger=module.PunctuatedMerger),
        r"inputs \{.*\} starved among",
    ),
    Mutant(
        "tree with the pair of another input",
        Patch(
            "eddyline_hw.splitjoin.collection",
            "taken[index].replicate",
            "taken[index - 1].replicate",
        ),
        lambda module: collected(5, fan_in=2, bound=8, CollectionTree=module.CollectionTree),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "tree whose stars always are those of the first input",
        Patch(
            "eddyline_hw.splitjoin.collection",
            "merger.leader.eq(alive & ~any_below(alive))",
            "merger.leader.eq(1)",
        ),
        lambda module: collected(5, fan_in=2, bound=8, CollectionTree=module.CollectionTree),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "tree that waits for whoever is off",
        Patch(
            "eddyline_hw.splitjoin.collection",
            "queue.push.eq(queue.room),",
            "queue.push.eq(0),",
        ),
        lambda module: collected(5, fan_in=2, bound=8, CollectionTree=module.CollectionTree),
        r"(a round|the end) did not come",
    ),
    Mutant(
        "tree that goes on with items of whoever is off",
        Patch(
            "eddyline_hw.splitjoin.collection",
            "with m.If(~self.enabled[leaf]):",
            "with m.If(~self.enabled[leaf] & ~self.pushes[leaf]):",
        ),
        lambda module: collected(5, fan_in=2, bound=8, CollectionTree=module.CollectionTree),
        r"o: got .*, expected one of|input \d went off, and then came",
    ),
    Mutant(
        "tree whose stars are of no use once somebody is off",
        Patch(
            "eddyline_hw.splitjoin.collection",
            'item_layout().const({"star": 1})',
            'item_layout().const({"star": 1, "hidden": 1})',
        ),
        lambda module: collected(5, fan_in=2, bound=8, CollectionTree=module.CollectionTree),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "combiner that takes whatever is there",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "Cat(record.r, record.s)",
            "Cat(record.r | record.s, record.s)",
        ),
        lambda module: combined(module=module),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "combiner that is content with part of an arrival",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "finals[side].eq(port.ahead.final)",
            "finals[side].eq(stars[side])",
        ),
        lambda module: combined(module=module),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "combiner with the pair of the other side",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "from_s.eq(~taken[0])",
            "from_s.eq(taken[0])",
        ),
        lambda module: combined(module=module),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "combiner that shows hidden stars",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "taken.any() & ~(taken.all() & shown[0].hidden)",
            "taken.any()",
        ),
        lambda module: combined(module=module),
        r"o: got .*, expected",
    ),
    Mutant(
        "combiner that rests for a cycle after each item",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "room = self.room",
            "room = self.room & ~taken.any()",
        ),
        lambda module: combined(module=module),
        r"\d+ items took \d+ cycles",
    ),
]
