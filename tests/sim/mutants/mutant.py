"""What a wrong design is: a block with one piece of its source replaced."""

import importlib
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Mutant", "Patch"]


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
