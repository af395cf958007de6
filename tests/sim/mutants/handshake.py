"""Handshake joins that are wrong."""

from tests.sim import blocks
from tests.sim.mutants.mutant import Mutant, Patch

__all__ = ["MUTANTS"]

MUTANTS = [
    Mutant(
        "scan that leaves out the newest tuple",
        Patch("eddyline_hw.handshake.held_window", "(to_lane >= lane)", "(to_lane > lane)"),
        lambda module: blocks.held_window(skip_sent=False, module=module),
        r"a scan showed .*, not",
    ),
    Mutant(
        "scan that shows sent tuples as well",
        Patch("eddyline_hw.handshake.held_window", "if self.skip_sent:", "if False:"),
        lambda module: blocks.held_window(skip_sent=True, module=module),
        r"a scan showed .*, not",
    ),
    Mutant(
        "core without a throttle",
        Patch(
            "eddyline_hw.handshake.matcher",
            "self.throttle.eq(queue.level > self.depth - self.margin - 4)",
            "self.throttle.eq(0)",
        ),
        lambda module: blocks.core(Matcher=module.Matcher),
        r"is missing|the last star did not come",
    ),
    Mutant(
        "core that compares with the first row only",
        Patch(
            "eddyline_hw.handshake.lockstep_core",
            "more.eq(Mux(step.side, self.last_r.row != 0, self.last_s.row != 0))",
            "more.eq(0)",
        ),
        lambda module: blocks.core(module=module),
        r"is missing",
    ),
    Mutant(
        "lock-step chain with one window a slot too long",
        Patch(
            "eddyline_hw.handshake.lockstep",
            'more = place < getattr(self, f"extra_{side}")',
            'more = place <= getattr(self, f"extra_{side}")',
        ),
        lambda module: blocks.lockstep_chain(module=module),
        r"is no result|is missing",
    ),
    Mutant(
        "lock-step chain without bubbles",
        Patch(
            "eddyline_hw.handshake.admission",
            "owes[side].eq(some[side])",
            "owes[side].eq(0)",
        ),
        lambda module: blocks.lockstep_chain(Admission=module.Admission),
        r"is no result",
    ),
    Mutant(
        "lock-step chain that rests for a cycle after each tuple",
        Patch(
            "eddyline_hw.handshake.admission",
            "with m.Elif(free & room):",
            "with m.Elif(free & room & ~step.move):",
        ),
        lambda module: blocks.lockstep_chain(Admission=module.Admission),
        r"a tuple of [RS] took \d+ cycles, not \d+",
    ),
    Mutant(
        "asynchronous chain as printed, sent tuples not skipped",
        None,
        lambda _: blocks.async_chain(as_printed=True),
        r"came 2 times",
    ),
    Mutant(
        "asynchronous chain that skips sent tuples on both sides",
        Patch(
            "eddyline_hw.handshake.async_core",
            'skip_sent=side == "r" and not as_printed',
            "skip_sent=True",
        ),
        lambda module: blocks.async_chain(AsyncCore=module.AsyncCore),
        r"is missing",
    ),
    Mutant(
        "asynchronous chain that expires a tuple before it has come",
        Patch(
            "eddyline_hw.handshake.async_core",
            "is_ack & (~self.enters | self.opposite.first_valid)",
            "is_ack",
        ),
        lambda module: blocks.async_chain(AsyncCore=module.AsyncCore),
        r"is missing|is no result|did not come",
    ),
    Mutant(
        "star that does not wait for the tuples before it",
        Patch(
            "eddyline_hw.handshake.async_core",
            "waited.all() & ~exceeds &",
            "",
        ),
        lambda module: blocks.async_chain(AsyncCore=module.AsyncCore),
        r"came behind star|star \d+ did not come",
    ),
    Mutant(
        "admission that does not wait for room",
        Patch(
            "eddyline_hw.handshake.admission",
            "room.eq(~self.throttle | (self.policy == Policy.DROP_RESULTS))",
            "room.eq(1)",
        ),
        lambda module: blocks.admission("lockstep", Admission=module.Admission),
        r"results were dropped|is missing",
    ),
    Mutant(
        "admission that drops tuples without counting them",
        Patch(
            "eddyline_hw.handshake.admission",
            "self.dropped.eq(self.dropped + 1)",
            "self.dropped.eq(self.dropped)",
        ),
        lambda module: blocks.admission("lockstep", Admission=module.Admission),
        r"is missing",
    ),
    Mutant(
        "source that drops tuples without counting them",
        Patch(
            "eddyline_hw.handshake.source",
            "self.dropped.eq(self.dropped + 1)",
            "self.dropped.eq(self.dropped)",
        ),
        lambda module: blocks.admission("asynchronous", Source=module.Source),
        r"is missing",
    ),
]
