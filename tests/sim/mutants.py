"""Designs that are wrong on purpose, one small change each: every bench has to notice its own."""

import importlib
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass

from tests.sim import blocks

__all__ = ["MUTANTS", "Mutant", "Patch"]


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
    patch : Patch
        The changed module.
    block : callable
        Makes a ``blocks.Block`` from the changed module.
    says : str
        What the bench has to say, as a regular expression.
    """

    name: str
    patch: Patch
    block: Callable
    says: str


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
            "writable.eq(self._stored != self.depth - 1)",
            "writable.eq(self._stored != self.depth)",
        ),
        lambda module: blocks.fifo(4, module=module),
        r"6 payloads fit, not 5",
    ),
    Mutant(
        "queue that is full one too early",
        Patch(
            "eddyline_hw.stream.fifo",
            "writable.eq(self._stored != self.depth - 1)",
            "writable.eq(self._stored != self.depth - 2)",
        ),
        lambda module: blocks.fifo(4, module=module),
        r"4 payloads fit, not 5",
    ),
    Mutant(
        "queue that counts a push with a pop twice",
        Patch(
            "eddyline_hw.stream.fifo",
            "with m.If(write & ~taken):",
            "with m.If(write):",
        ),
        lambda module: blocks.fifo(4, module=module),
        r"level is \d+, not \d+",
    ),
    Mutant(
        "queue between clocks that takes more than it has room for",
        Patch(
            "eddyline_hw.stream.fifo",
            "wiring.connect(m, wiring.flipped(self.i), store.w_stream)",
            "m.d.comb += [store.w_data.eq(self.i.payload), store.w_en.eq(self.i.valid),"
            " self.i.ready.eq(1)]",
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
        r"o: a star overtook",
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
        Patch(
            "eddyline_hw.stream.merge",
            "arbiter.advance.eq(free)",
            "arbiter.advance.eq(0)",
        ),
        lambda module: blocks.merge_tree(5, fan_in=3, bound=6, module=module),
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
]
