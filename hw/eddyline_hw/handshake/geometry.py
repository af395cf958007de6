"""How windows are spread over the cores of a chain. Plain numbers, for gateware and host alike."""

from dataclasses import dataclass

__all__ = ["Spread", "spread"]


@dataclass(frozen=True)
class Spread:
    """How one side's window lies on a chain.

    Core ``k``, counted from where the side enters, holds ``base`` tuples and one more if
    ``k < extra``. After every ``period`` tuples come ``bubbles`` empty slots.
    """

    base: int
    extra: int
    period: int
    bubbles: int

    def share(self, core: int) -> int:
        return self.base + (core < self.extra)

    @property
    def largest(self) -> int:
        return self.base + (self.extra > 0)

    def total(self, cores: int) -> int:
        """Return the slots of all cores together: the window, and the bubbles in it."""
        return self.base * cores + self.extra


def spread(window: int, cores: int, *, lockstep: bool) -> Spread:
    """Spread a window of ``window`` tuples over the cores.

    In lock step a tuple moves by one slot per arrival and must stop at every core, so that there
    is at least one slot in each; bubbles fill what a smaller window leaves. In the asynchronous
    chain a share may be zero: tuples then pass through.
    """
    slots = max(window, cores) if lockstep else window
    return Spread(slots // cores, slots % cores, window, slots - window)
