"""SplitJoin operators that are wrong."""

from tests.sim.mutants.mutant import Mutant, Patch
from tests.sim.split_blocks import adaptive, separate, split_join, split_join_time

__all__ = ["MUTANTS"]

MUTANTS = [
    Mutant(
        "storing counter that wraps at k, as printed",
        Patch(
            "eddyline_hw.splitjoin.region",
            "Mux(mine, self.cores - 1, self._distance - 1)",
            "Mux(mine, self.cores, self._distance - 1)",
        ),
        lambda module: split_join(Region=module.Region),
        r"is missing",
    ),
    Mutant(
        "window that ends one tuple early",
        Patch(
            "eddyline_hw.splitjoin.region",
            "self._distance >= self.young_from",
            "self._distance > self.young_from",
        ),
        lambda module: split_join(Region=module.Region),
        r"is missing",
    ),
    Mutant(
        "window that ends one tuple late",
        Patch(
            "eddyline_hw.splitjoin.operator",
            'f"young_from_{side}": self.cores - rest',
            'f"young_from_{side}": max(0, self.cores - rest - 1)',
        ),
        lambda module: split_join(module=module),
        r"is no result",
    ),
    Mutant(
        "core without a star while its sub-window is empty, as printed",
        Patch(
            "eddyline_hw.splitjoin.core",
            "sequencer.ends & packet.closes",
            """sequencer.ends & packet.closes & (~packet.tuple | Mux(packet.side, *(
                one._wrapped | one._stored | one._head.as_value().any()
                for one in self.regions.values()
            )))""",
        ),
        lambda module: split_join(SplitCore=module.SplitCore),
        r"star \d+ is \('answer',\), not",
    ),
    Mutant(
        "combiner that only interleaves both sides, as printed",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "Cat(record.r, record.s)",
            "Cat(~record.both, ~record.both & ~self.i[0].coming)",
        ),
        lambda module: split_join(Combiner=module.Combiner),
        r"star \d+ is|came behind star \d+",
    ),
    Mutant(
        "core whose star comes with the first row",
        Patch(
            "eddyline_hw.splitjoin.core",
            "sequencer.step & sequencer.ends & packet.closes",
            "sequencer.step & sequencer.first & packet.closes",
        ),
        lambda module: split_join(SplitCore=module.SplitCore),
        r"came behind star \d+",
    ),
    Mutant(
        "intervals that are counted from lane 0",
        Patch(
            "eddyline_hw.splitjoin.region",
            "Mux(self.first, -self._head.lane, number + passed)",
            "Mux(self.first, 0, number + passed)",
        ),
        lambda module: split_join(Region=module.Region),
        r"came (behind|before) star \d+|answer \d+ did not come|star \d+ is",
    ),
    Mutant(
        "scan that ends a row early",
        Patch(
            "eddyline_hw.splitjoin.region",
            "self.reach.eq(self.last.row)",
            "self.reach.eq(self.last.row - (self.last.row > 3))",  # not what `triple` tells of
        ),
        lambda module: split_join(Region=module.Region),
        r"is missing",
    ),
    Mutant(
        "way out with the payload of the next place",
        Patch(
            "eddyline_hw.splitjoin.exit",
            "r_port.addr.eq(place)",
            "r_port.addr.eq(place + 1)",
        ),
        lambda module: split_join(Exit=module.Exit),
        r"is missing|is no result|answer \d+ did not come",
    ),
    Mutant(
        "flush that does not empty the windows",
        Patch(
            "eddyline_hw.splitjoin.sequencer",
            "self.clear.eq(goes & fresh & packet.flush)",
            "self.clear.eq(0)",
        ),
        lambda module: split_join(Sequencer=module.Sequencer),
        r"is no result",
    ),
    Mutant(
        "sequencer without a throttle",
        Patch(
            "eddyline_hw.splitjoin.core",
            "sequencer.hold.eq(self.held)",
            "sequencer.hold.eq(0)",
        ),
        lambda module: split_join(SplitCore=module.SplitCore),
        r"is missing|answer \d+ did not come|something was overwritten or lost",
    ),
    Mutant(
        "ids of the side before",
        Patch(
            "eddyline_hw.splitjoin.serializer",
            "of_s = sides[1]",
            "of_s = sides[0]",
        ),
        lambda module: split_join(PunctuatedSerializer=module.PunctuatedSerializer),
        r"is missing|is no result",
    ),
    Mutant(
        "records of the other side",
        Patch(
            "eddyline_hw.splitjoin.distributor",
            "self.record.s.eq(~stale & alone & message.side)",
            "self.record.s.eq(~stale & alone & ~message.side)",
        ),
        lambda module: split_join(Distributor=module.Distributor),
        r"answer \d+ did not come|star \d+ is",
    ),
    Mutant(
        "groups of one arrival too few",
        Patch(
            "eddyline_hw.splitjoin.distributor",
            "lone.eq(count == size)",
            "lone.eq(count + 1 == size)",
        ),
        lambda module: split_join(Distributor=module.Distributor),
        r"star \d+ is|came (before|behind) star",
    ),
    Mutant(
        "packets that are sent without room",
        Patch(
            "eddyline_hw.splitjoin.operator",
            "distributor.room.eq(tree.room & self._room_for_records)",
            "distributor.room.eq(self._room_for_records)",
        ),
        lambda module: split_join(module=module),
        r"is missing|answer \d+ did not come|something was overwritten or lost",
    ),
    Mutant(
        "tree that sends when some core has room",
        Patch("eddyline_hw.splitjoin.tree", "return Cat(rooms).all()", "return Cat(rooms).any()"),
        lambda module: split_join(stalls=True, DistributionTree=module.DistributionTree),
        r"is missing|answer \d+ did not come|something was overwritten or lost",
    ),
    Mutant(
        "cores with less room than packets under way",
        Patch(
            "eddyline_hw.splitjoin.operator",
            "flight=2 * self.tree.latency + 2,",
            "flight=0,",
        ),
        lambda module: split_join(module=module),
        r"is missing|answer \d+ did not come|something was overwritten or lost",
    ),
    Mutant(
        "core that rests for a cycle after each tuple",
        Patch(
            "eddyline_hw.splitjoin.sequencer",
            "goes.eq(self.i.coming & ~self.hold)",
            "goes.eq(self.i.coming & ~self.hold & ~(goes & ends))",
        ),
        lambda module: split_join("splitjoin_rate", Sequencer=module.Sequencer),
        r"core \d was busy in \d+ of \d+ cycles",
    ),
    Mutant(
        "operator that rests for a cycle after each item",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "room = self.room",
            "room = self.room & ~taken.any()",
        ),
        lambda module: split_join("splitjoin_rate", Combiner=module.Combiner),
        r"\d+ items with \d+ stars took \d+ cycles",
    ),
    Mutant(
        "gate that waits for a core that is off",
        Patch(
            "eddyline_hw.splitjoin.gate",
            "self.has_room | off",
            "self.has_room",
        ),
        lambda module: split_join(hung=[1], Gate=module.Gate),
        r"answer \d+ did not come",
    ),
    Mutant(
        "gate that counts the turns of its neighbour",
        Patch(
            "eddyline_hw.splitjoin.gate",
            "missed.eq(off & (distance == 0))",
            "missed.eq(off & (distance == 1))",
        ),
        lambda module: split_join("splitjoin_faults", Gate=module.Gate),
        r"unstored_[rs] of core \d is \d+, not \d+",
    ),
    Mutant(
        "core that takes its neighbour along when it goes off",
        Patch(
            "eddyline_hw.splitjoin.operator",
            "m.d.comb += merge.enabled.eq(enabled)",
            "m.d.comb += merge.enabled.eq(enabled & (enabled << 1 | 1))",
        ),
        lambda module: split_join("splitjoin_faults", module=module),
        r"is missing|answer \d+ did not come",
    ),
    Mutant(
        "separate streams with hidden stars",
        Patch(
            "eddyline_hw.splitjoin.operator",
            "merge.o.valid & merge.o.ready & ~(merge.o.payload.star & merge.o.payload.hidden)",
            "merge.o.valid & merge.o.ready",
        ),
        lambda module: separate(module=module),
        r"star \d+ is|stars too many|came behind star \d+",
    ),
    Mutant(
        "separate streams with the pair of the next item",
        Patch(
            "eddyline_hw.splitjoin.operator",
            "leave(m, second, merge.pair, leaving.payload)",
            "leave(m, first, merge.pair, leaving.payload)",
        ),
        lambda module: separate(module=module),
        r"is missing|is no result|answer \d+ did not come",
    ),
    Mutant(
        "groups that never shrink",
        Patch(
            "eddyline_hw.splitjoin.adaptive",
            "self.interval.eq(self.interval >> 1)",
            "self.interval.eq(self.interval)",
        ),
        lambda module: adaptive(AdaptivePrecision=module.AdaptivePrecision),
        r"the precision is \d+ of 9",
    ),
    Mutant(
        "groups that grow though stars are in nobody's way",
        Patch(
            "eddyline_hw.splitjoin.adaptive",
            "helps.eq(self.inner | (held_up > self.period // 64))",
            "helps.eq(1)",
        ),
        lambda module: adaptive(AdaptivePrecision=module.AdaptivePrecision),
        r"not that of single arrivals",
    ),
    Mutant(
        "groups that do not grow though results are in the way",
        Patch(
            "eddyline_hw.splitjoin.adaptive",
            "helps.eq(self.inner | (held_up > self.period // 64))",
            "helps.eq(self.inner)",
        ),
        lambda module: adaptive(AdaptivePrecision=module.AdaptivePrecision),
        r"the precision is 5 of 9",
    ),
    Mutant(
        "inner order that is never strict again",
        Patch(
            "eddyline_hw.splitjoin.adaptive",
            "self.log.eq(self.log - 1)",
            "self.log.eq(self.log)",
        ),
        lambda module: adaptive(AdaptivePrecision=module.AdaptivePrecision),
        r"the precision is 4 of 9",
    ),
    Mutant(
        "step that is tried again and again",
        Patch("eddyline_hw.splitjoin.adaptive", "enough << 1", "enough"),
        lambda module: adaptive(AdaptivePrecision=module.AdaptivePrecision),
        r"cycles at each step were",
    ),
    Mutant(
        "group that is cut with a star that names whoever comes next",
        Patch(
            "eddyline_hw.splitjoin.distributor",
            "packet.hidden.eq(stale)",
            "packet.hidden.eq(stale & ~open_)",
        ),
        lambda module: adaptive(Distributor=module.Distributor),
        r"came behind arrival",
    ),
    Mutant(
        "change of intervals that packets are not told of",
        Patch(
            "eddyline_hw.splitjoin.distributor",
            "applies & (source.log != current.log)",
            "applies & (source.log != source.log)",
        ),
        lambda module: adaptive(Distributor=module.Distributor),
        r"inner order, relaxed",
    ),
    Mutant(
        "group that changes size while it is open",
        Patch(
            "eddyline_hw.splitjoin.distributor",
            "lone.eq(count == size)",
            "lone.eq(count + (self.interval == 1) >= size)",
        ),
        lambda module: adaptive(Distributor=module.Distributor),
        r"a group of \d+ with intervals of",
    ),
    Mutant(
        "sub-windows of whole rounds though k does not divide the window, as printed",
        Patch(
            "eddyline_hw.splitjoin.operator",
            'f"young_from_{side}": self.cores - rest',
            'f"young_from_{side}": 0',
        ),
        lambda module: split_join(module=module),
        r"is no result",
    ),
    Mutant(
        "expiry with its sign reversed, as printed",
        Patch(
            "eddyline_hw.splitjoin.expiry",
            "self.replaced < self.now",
            "self.replaced > self.now",
        ),
        lambda module: split_join_time(Expiry=module.Expiry),
        r"is missing",
    ),
    Mutant(
        "expiry of an empty window, as printed",
        Patch(
            "eddyline_hw.splitjoin.expiry",
            "(held != 0) & (look == 0)",
            "(look == 0)",
        ),
        lambda module: split_join_time(Expiry=module.Expiry),
        r"is missing",
    ),
    Mutant(
        "window of time that forgets a row too early",
        Patch(
            "eddyline_hw.splitjoin.expiry",
            "self.replaced < self.now",
            "self.replaced <= self.now",
        ),
        lambda module: split_join_time(Expiry=module.Expiry),
        r"is missing",
    ),
    Mutant(
        "overflow that is told a tuple too late",
        Patch(
            "eddyline_hw.handshake.overflow",
            "when <= until",
            "when < until",
        ),
        lambda module: split_join_time(OverflowGuard=module.OverflowGuard),
        r"overflow is False, not True",
    ),
]
