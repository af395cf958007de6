"""Designs that are wrong on purpose, one small change each: every bench has to notice its own."""

import importlib
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass

from tests.sim import blocks

__all__ = ["MUTANTS", "Mutant", "Patch"]

# A queue of half the rate in place of a buffer.
SLOW_BUFFER = """\
from functools import partial
from eddyline_hw.stream.mailbox import Mailbox
Buffer = partial(Mailbox, depth=4)"""


@dataclass(frozen=True)
class Patch:
    """A module of gateware with one piece of its source replaced.

    Parameters
    ----------
    module : str
        The module whose source is changed.
    old, new : str
        A piece that occurs exactly once, and what stands there instead.
    """

    module: str
    old: str
    new: str

    def load(self):
        """Return the changed module."""
        source = inspect.getsource(importlib.import_module(self.module))
        found = source.count(self.old)
        if found != 1:
            raise ValueError(f"{self.old!r} occurs {found} times in {self.module}")
        changed = types.ModuleType(f"{self.module}_mutant")
        exec(compile(source.replace(self.old, self.new), changed.__name__, "exec"), vars(changed))
        return changed


@dataclass(frozen=True)
class Mutant:
    """A wrong design.

    Parameters
    ----------
    name : str
        What is wrong.
    patch : Patch or None
        The changed module; none if the block itself can be told to be wrong.
    block : callable
        Makes a ``blocks.Block`` from the changed module.
    says : str
        What the bench has to say, as a regular expression.
    """

    name: str
    patch: Patch | None
    block: Callable
    says: str

    def make(self):
        """Return the wrong block."""
        return self.block(self.patch and self.patch.load())


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
    Mutant(
        "steered merger with results that pass a star",
        Patch(
            "eddyline_hw.stream.merge",
            "barrier.eq(stars.all())",
            "barrier.eq(stars.any())",
        ),
        lambda module: blocks.steered_merger(3, module=module),
        r"o: a star overtook|o: got .*, expected one of",
    ),
    Mutant(
        "steered merger that is not in sequence",
        Patch(
            "eddyline_hw.stream.merge",
            "ordered.eq(self.shape(merged).ordered)",
            "ordered.eq(0)",
        ),
        lambda module: blocks.steered_tree(5, fan_in=2, module=module),
        r"o: got \{'star': 0.*, expected one of \[\{'star': 0",
    ),
    Mutant(
        "steered merger that waits for inputs that are off",
        Patch(
            "eddyline_hw.stream.merge",
            "for port in self.i) | ~self.enabled",
            "for port in self.i)",
        ),
        lambda module: blocks.steered_merger(3, module=module),
        r"the end did not come",
    ),
    Mutant(
        "combiner that forgets the order of arrivals",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "with m.If(record.side == side):",
            "with m.If(here[side] & (side == 0 or ~here[0])):",
        ),
        lambda module: blocks.combiner(module=module),
        r"o: got .*, expected one of",
    ),
    Mutant(
        "combiner whose output rests for a cycle after each item",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "from eddyline_hw.stream.buffer import Buffer",
            SLOW_BUFFER,
        ),
        lambda module: blocks.combiner(module=module),
        r"\d+ items took \d+ cycles",
    ),
    Mutant(
        "storing counter that wraps at k, as printed",
        Patch(
            "eddyline_hw.splitjoin.region",
            "Mux(mine, self.cores - 1, self._distance - 1)",
            "Mux(mine, self.cores, self._distance - 1)",
        ),
        lambda module: blocks.split_join(Region=module.Region),
        r"is missing",
    ),
    Mutant(
        "window that ends one tuple early",
        Patch(
            "eddyline_hw.splitjoin.region",
            "self._distance >= self.young_from",
            "self._distance > self.young_from",
        ),
        lambda module: blocks.split_join(Region=module.Region),
        r"is missing",
    ),
    Mutant(
        "window that ends one tuple late",
        Patch(
            "eddyline_hw.splitjoin.operator",
            'f"young_from_{side}": self.cores - rest',
            'f"young_from_{side}": max(0, self.cores - rest - 1)',
        ),
        lambda module: blocks.split_join(module=module),
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
        lambda module: blocks.split_join(core=module),
        r"answer \d+ did not come",
    ),
    Mutant(
        "sequencer without a throttle",
        Patch(
            "eddyline_hw.splitjoin.core",
            "hold.eq(matcher.throttle)",
            "hold.eq(0)",
        ),
        lambda module: blocks.split_join(core=module),
        r"is missing|answer \d+ did not come|something was overwritten or lost",
    ),
    Mutant(
        "core that rests for a cycle after each tuple",
        Patch(
            "eddyline_hw.splitjoin.core",
            "hold.eq(matcher.throttle)",
            "hold.eq(matcher.throttle | (sequencer.ends & ~hold))",
        ),
        lambda module: blocks.split_join(core=module),
        r"core \d was busy in \d+ of \d+ cycles",
    ),
    Mutant(
        "operator whose output rests for a cycle after each item",
        Patch(
            "eddyline_hw.splitjoin.combiner",
            "from eddyline_hw.stream.buffer import Buffer",
            SLOW_BUFFER,
        ),
        lambda module: blocks.split_join(Combiner=module.Combiner),
        r"\d+ items with \d+ stars took \d+ cycles",
    ),
    Mutant(
        "gate that does not swallow",
        Patch(
            "eddyline_hw.splitjoin.gate",
            "self.o.ready | off",
            "self.o.ready",
        ),
        lambda module: blocks.split_join(hung=[1], Gate=module.Gate),
        r"answer \d+ did not come",
    ),
    Mutant(
        "gate that counts the turns of its neighbour",
        Patch(
            "eddyline_hw.splitjoin.gate",
            "with m.If(off & (distance == 0)):",
            "with m.If(off & (distance == 1)):",
        ),
        lambda module: blocks.split_join(Gate=module.Gate),
        r"unstored_[rs] of core \d is \d+, not \d+",
    ),
    Mutant(
        "window of time that forgets a row too early",
        Patch(
            "eddyline_hw.splitjoin.expiry",
            "self.replaced < self.now",
            "self.replaced <= self.now",
        ),
        lambda module: blocks.split_join_time(Expiry=module.Expiry),
        r"is missing",
    ),
    Mutant(
        "overflow that is told a tuple too late",
        Patch(
            "eddyline_hw.handshake.overflow",
            "when <= until",
            "when < until",
        ),
        lambda module: blocks.split_join_time(OverflowGuard=module.OverflowGuard),
        r"overflow is False, not True",
    ),
]
