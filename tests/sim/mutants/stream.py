"""Queues, trees and windows that are wrong."""

from tests.sim import blocks
from tests.sim.mutants.mutant import Mutant, Patch

__all__ = ["MUTANTS"]

MUTANTS = [
    Mutant(
        "arbiter without rotation",
        Patch(
            "eddyline_hw.stream.arbiter",
            "mask.eq(below)",
            "mask.eq(0)",
        ),
        lambda module: blocks.arbiter(3, module=module),
        r"grant 1, expected 10 of 111",
    ),
    Mutant(
        "arbiter that rotates without use",
        Patch(
            "eddyline_hw.stream.arbiter",
            "with m.If(self.advance & (self.requests != 0)):",
            "with m.If(self.requests != 0):",
        ),
        lambda module: blocks.arbiter(3, module=module),
        r"grant \d+, expected \d+",
    ),
    Mutant(
        "arbiter that grants two at once",
        Patch(
            "eddyline_hw.stream.arbiter",
            "self.grant.eq(ahead & ~ahead_below)",
            "self.grant.eq(ahead)",
        ),
        lambda module: blocks.arbiter(3, module=module),
        r"grant 110 of requests 111",
    ),
    Mutant(
        "queue that is full one too late",
        Patch(
            "eddyline_hw.stream.fifo",
            "(after_tail != self._head) & (beyond != self._head)",
            "after_tail != self._head",
        ),
        lambda module: blocks.fifo(4, module=module),
        r"level is 0, not 4|o: got \d+, expected \d+",
    ),
    Mutant(
        "queue that is full one too early",
        Patch(
            "eddyline_hw.stream.fifo",
            "(after_tail != self._head) & (beyond != self._head)",
            "(after_tail != self._head) & (beyond != self._head)"
            " & (following(beyond) != self._head)",
        ),
        lambda module: blocks.fifo(4, module=module),
        r"2 payloads fit, not 4",
    ),
    Mutant(
        "queue that counts a push with a pop twice",
        Patch(
            "eddyline_hw.stream.fifo",
            "with m.If(wrote & ~took):",
            "with m.If(wrote):",
        ),
        lambda module: blocks.fifo(4, module=module),
        r"level is \d+, not \d+",
    ),
    Mutant(
        "mailbox that offers what was just taken",
        Patch(
            "eddyline_hw.stream.mailbox",
            "(self.level != 0) & ~popped",
            "self.level != 0",
        ),
        lambda module: blocks.mailbox(5, module=module),
        r"o: got \d+, expected \d+",
    ),
    Mutant(
        "queue between clocks that takes more than it has room for",
        Patch(
            "eddyline_hw.stream.crossing",
            "full = head_seen ^ (3 << len(head_seen) - 2)",
            "full = ~head_seen",
        ),
        lambda module: blocks.crossing(module=module),
        r"o: got \d+, expected \d+",
    ),
    Mutant(
        "buffer that loses what arrives in a stall",
        Patch(
            "eddyline_hw.stream.buffer",
            "m.d.sync += self._room.eq(0)",
            "m.d.sync += self._room.eq(1)",
        ),
        lambda module: blocks.buffer(module=module),
        r"o: got \d+, expected \d+",
    ),
    Mutant(
        "merger that drops when two inputs arrive at once",
        Patch(
            "eddyline_hw.stream.merge",
            "port.ready.eq((granted | barrier) & free)",
            "port.ready.eq((port.valid | barrier) & free)",
        ),
        lambda module: blocks.merger(3, stars=False, module=module),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "merger with a star that overtakes",
        Patch(
            "eddyline_hw.stream.merge",
            "barrier.eq(stars.all())",
            "barrier.eq(stars.any())",
        ),
        lambda module: blocks.merger(8, stars=True, module=module),
        r"o: a star overtook|o: got .*, expected one of",
    ),
    Mutant(
        "merger that edits its offer in a stall",
        Patch(
            "eddyline_hw.stream.merge",
            "free.eq(~self.o.valid | self.o.ready)",
            "free.eq(1)",
        ),
        lambda module: blocks.merger(3, stars=False, module=module),
        r"o: offer .* (became .* in a stall|was withdrawn)",
    ),
    Mutant(
        "merge tree that prefers its first inputs",
        Patch("eddyline_hw.stream.arbiter", "mask.eq(below)", "mask.eq(0)"),
        lambda module: blocks.merge_tree(
            5, fan_in=3, bound=6, RoundRobinArbiter=module.RoundRobinArbiter
        ),
        r"inputs \{.*\} starved among",
    ),
    Mutant(
        "broadcast that forgets a stalled output",
        Patch(
            "eddyline_hw.stream.broadcast",
            "self.i.ready.eq(taken.all())",
            "self.i.ready.eq(taken.any())",
        ),
        lambda module: blocks.broadcast_tree(3, fan_out=4, module=module),
        r"o__\d: got \d+, expected \d+",
    ),
    Mutant(
        "broadcast that serves an output twice",
        Patch(
            "eddyline_hw.stream.broadcast",
            "m.d.sync += self._served.eq(taken)",
            "m.d.sync += self._served.eq(0)",
        ),
        lambda module: blocks.broadcast_tree(3, fan_out=4, module=module),
        r"o__\d: got \d+, expected \d+",
    ),
    Mutant(
        "ring that hides its newest tuple once it is full",
        Patch(
            "eddyline_hw.window.ring",
            "reached = (end.lane > lane) | (full & (end.lane == lane))",
            "reached = end.lane > lane",
        ),
        lambda module: blocks.window("lutram", slots=7, lanes=2, module=module),
        r"the window shows .*, not",
    ),
    Mutant(
        "ring that is not empty after a clear",
        Patch(
            "eddyline_hw.window.ring",
            "m.d.sync += [head.as_value().eq(0), full.eq(0)]",
            "m.d.sync += head.as_value().eq(0)",
        ),
        lambda module: blocks.window("bram", slots=8, lanes=2, module=module),
        r"the window shows .*, not",
    ),
    Mutant(
        "shift register that is one too long",
        Patch(
            "eddyline_hw.window.shift",
            "(self.last.row == i // self.width) & (self.last.lane == i % self.width)",
            "(self.last.row == (i - 1) // self.width) & (self.last.lane == (i - 1) % self.width)",
        ),
        lambda module: blocks.window("shift", slots=5, lanes=2, module=module),
        r"left, not|the window shows",
    ),
    Mutant(
        "queue that tells too late that it is full",
        Patch(
            "eddyline_hw.stream.room",
            "self.depth - self.BEHIND - self.flight",
            "self.depth - self.BEHIND",
        ),
        lambda module: blocks.ticket_queue(flight=3, lag=2, RoomQueue=module.RoomQueue),
        r"something was lost behind \d+ pushes",
    ),
    Mutant(
        "queue with the body of the next ticket",
        Patch(
            "eddyline_hw.stream.tickets",
            "bodies.r_addr.eq(self._place)",
            "bodies.r_addr.eq(self._place + 1)",
        ),
        lambda module: blocks.ticket_queue(flight=0, lag=0, module=module),
        r"body \d+ is 0x",
    ),
    Mutant(
        "queue that does not wait for late bodies",
        Patch(
            "eddyline_hw.stream.tickets",
            "for cycle in range(self.lag):",
            "for cycle in range(self.lag - 1):",
        ),
        lambda module: blocks.ticket_queue(flight=3, lag=2, module=module),
        r"body \d+ is 0x",
    ),
    Mutant(
        "queue of tickets that foretells what has been taken",
        Patch(
            "eddyline_hw.stream.preview",
            "self.o.ahead.eq(Mux(self.i.ready, self.o.behind, payload))",
            "self.o.ahead.eq(payload)",
        ),
        lambda module: blocks.ticket_queue(flight=0, lag=0, Preview=module.Preview),
        r"head \d+ (was foretold as|is) \d+",
    ),
]
