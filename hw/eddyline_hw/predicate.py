"""Predicate to comparators: a lowered predicate as a pipeline of a chosen length.

The predicate becomes a graph of nodes that a few lookup tables or one carry chain can do. Nodes
are values: two that say the same are the same, so common parts are built and registered once.
A schedule then gives each node a stage so that the slowest stage is as quick as it can be.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline.plan import All, Any_, Compare, Flag, Layout, Predicate

from .layouts import side_layout

__all__ = ["PredicatePipeline"]

# Picoseconds with the routing before it, on an ECP5 of speed grade 6, as nextpnr reports them. Only
# the ratios matter: they decide between long carry chains and more levels of lookup tables.
LUT_DELAY = 1050
CARRY_DELAY = 2250
CARRY_DELAY_PER_BIT = 36

LUT_INPUTS = 4
CHUNKS = (64, 32, 16, 8)
# Halving the chunk costs more than half as many lookup tables again, so it has to pay.
WORTH = 1.15


class PredicatePipeline(wiring.Component):
    """Decide whether a tuple of R and a tuple of S belong together.

    A comparison with an optional word whose validity bit is 0 is false; words of different width
    are compared as unsigned numbers. A pair enters in every cycle. All paths have ``stages``
    registers, the last of them at the output, and none is reset: ``match`` is undefined until the
    first pair has come through.

    Parameters
    ----------
    predicate : :class:`Compare`, :class:`Flag`, :class:`All` or :class:`Any_`
        Condition on words and flags of the two layouts.
    r, s : :class:`Layout`
        What tuples of the two sides look like.
    stages : int
        Number of registers from input to output; 0 is combinational.
    chunk : int, optional
        Most bits that one carry chain compares. Left out, it is the longest that is hardly
        slower than the quickest: with 32-bit words 32 for one stage, 16 for more.

    Attributes
    ----------
    latency : int
        Cycles from a pair to its ``match``: equal to ``stages``.

    Members
    -------
    r : ``In(side_layout(r))``
        Tuple of R.
    s : ``In(side_layout(s))``
        Tuple of S.
    match : ``Out(1)``
        The predicate of the ``r`` and ``s`` of ``stages`` cycles ago.
    """

    def __init__(self, predicate: Predicate, r: Layout, s: Layout, *, stages: int = 2, chunk=None):
        if stages < 0:
            raise ValueError(f"Pipeline needs at least 0 stages, not {stages!r}")
        if chunk is not None and chunk < 1:
            raise ValueError(f"Chunk needs at least 1 bit, not {chunk!r}")
        self.predicate = predicate
        self.stages = self.latency = stages
        self._root, self._stage_of = _compile(predicate, r, s, stages, chunk)
        super().__init__({"r": In(side_layout(r)), "s": In(side_layout(s)), "match": Out(1)})

    def elaborate(self, platform):
        m = Module()
        delayed = {}

        def value(node, stage):
            """Return what ``node`` says about the pair that is in ``stage``."""
            if isinstance(node, _Constant):
                return Const(node.value)
            if (node, stage) not in delayed:
                result = Signal(name=f"{node.name}_{stage}", reset_less=True)
                if stage == self._stage_of[node]:
                    parts = [value(part, stage) for part in node.parts]
                    m.d.comb += result.eq(node.build(self, *parts))
                else:
                    m.d.sync += result.eq(value(node, stage - 1))
                delayed[node, stage] = result
            return delayed[node, stage]

        m.d.comb += self.match.eq(value(self._root, self.stages))
        return m


@dataclass(frozen=True)
class _Constant:
    """True or false, whatever the pair: the same in every stage."""

    value: bool

    parts = ()
    delay = 0
    name = "constant"


@dataclass(frozen=True)
class _Bit:
    """A flag or a validity bit."""

    side: str
    field: str

    parts = ()
    delay = 0

    @property
    def name(self):
        return f"{self.side}_{self.field}"

    def build(self, ports):
        return getattr(ports, self.side)[self.field]


@dataclass(frozen=True)
class _Span:
    """Bits ``start`` to ``stop`` of two fields, zero above the end of the narrower one."""

    r: str
    s: str
    start: int
    stop: int

    parts = ()

    @property
    def name(self):
        return f"r_{self.r}_{self.relation}_s_{self.s}_{self.stop - 1}_{self.start}"

    def operands(self, ports):
        for field in (ports.r[self.r], ports.s[self.s]):
            yield Cat(field, Const(0, self.stop))[self.start : self.stop]


@dataclass(frozen=True)
class _AtMost(_Span):
    """R <= S in a span, or S <= R if ``swapped``: one carry chain."""

    swapped: bool

    @property
    def relation(self):
        return "ge" if self.swapped else "le"

    @property
    def delay(self):
        return CARRY_DELAY + CARRY_DELAY_PER_BIT * (self.stop - self.start)

    def build(self, ports):
        low, high = self.operands(ports)
        if self.swapped:
            low, high = high, low
        # The bit that no borrow has cleared: a sum bit of the chain, with no logic behind it. A
        # comparison would be synthesized as `less or equal`, with a tree of gates for `equal`.
        return (Cat(high, Const(1)) - low)[len(high)]


@dataclass(frozen=True)
class _Equal(_Span):
    """R = S in a span, or R <> S if not ``wanted``: one lookup table."""

    wanted: bool

    delay = LUT_DELAY

    @property
    def relation(self):
        return "eq" if self.wanted else "ne"

    def build(self, ports):
        r, s = self.operands(ports)
        return r == s if self.wanted else r != s


@dataclass(frozen=True)
class _Merged:
    """Order of two numbers from the order of their upper bits, both ways, and their lower bits.

    Only `at most` and `at least` are used, never `less`: these two are carries as they are.
    """

    parts: tuple  # upper at most, upper at least, lower at most

    delay = LUT_DELAY
    name = "merged"

    def build(self, ports, upper, upper_reversed, lower):
        return ~upper_reversed | (upper & lower)


@dataclass(frozen=True)
class _Gate:
    """Conjunction or disjunction of as many bits as a lookup table has inputs."""

    conjunction: bool
    parts: tuple

    delay = LUT_DELAY

    @property
    def name(self):
        return "all" if self.conjunction else "any"

    def build(self, ports, *parts):
        return Cat(parts).all() if self.conjunction else Cat(parts).any()


class _Lowering:
    """Turn a predicate into nodes, with comparators of at most ``chunk`` bits."""

    def __init__(self, r, s, chunk):
        self.layouts = {"r": r, "s": s}
        self.chunk = chunk

    def lower(self, predicate):
        match predicate:
            case All(parts):
                return _gate(True, [self.lower(part) for part in parts])
            case Any_(parts):
                return _gate(False, [self.lower(part) for part in parts])
            case Flag(side, index):
                return _Bit(side, f"f{index}")
            case Compare(r, op, s):
                return self.compare(self.layouts["r"].words[r], op, self.layouts["s"].words[s])
        raise TypeError(f"a predicate is made of All, Any_, Compare and Flag, not {predicate!r}")

    def compare(self, r, op, s):
        width = max(r.width, s.width)
        match op:
            case "eq" | "ne":
                pairs = [
                    _Equal(r.name, s.name, start, min(start + 2, width), op == "eq")
                    for start in range(0, width, 2)
                ]
                holds = _gate(op == "eq", pairs)
            case "le" | "ge":
                holds = self.at_most(r.name, s.name, 0, width, op == "ge")
            case _:
                raise ValueError(f"no operator {op!r} (known: eq, ge, le, ne)")
        valid = [
            _Bit(side, f"{word.name}_valid") for side, word in (("r", r), ("s", s)) if word.optional
        ]
        return _gate(True, [holds, *valid])

    def at_most(self, r, s, start, stop, swapped):
        chunks = -(-(stop - start) // self.chunk)
        if chunks == 1:
            return _AtMost(r, s, start, stop, swapped)
        middle = start + self.chunk * (chunks // 2)
        upper = self.at_most(r, s, middle, stop, swapped)
        upper_reversed = self.at_most(r, s, middle, stop, not swapped)
        lower = self.at_most(r, s, start, middle, swapped)
        return _Merged((upper, upper_reversed, lower))


@lru_cache(maxsize=64)  # a chain has hundreds of equal pipelines
def _compile(predicate, r, s, stages, chunk):
    """Return the root of the graph and the stage of every node."""
    found = []
    for width in (chunk,) if chunk else CHUNKS:
        root = _Lowering(r, s, width).lower(predicate)
        found.append((root, *_schedule(root, stages)))
    quickest = min(slowest for *_, slowest in found)
    return next(
        (root, stage_of) for root, stage_of, slowest in found if slowest <= WORTH * quickest
    )


def _gate(conjunction, parts):
    """Combine any number of bits, early ones first, in a tree of gates."""
    if _Constant(not conjunction) in parts:
        return _Constant(not conjunction)

    def flatten(part):
        if isinstance(part, _Gate) and part.conjunction == conjunction:
            for inner in part.parts:
                yield from flatten(inner)
        elif part != _Constant(conjunction):
            yield part

    operands = list(dict.fromkeys(inner for part in parts for inner in flatten(part)))
    if not operands:
        return _Constant(conjunction)
    while len(operands) > 1:
        operands.sort(key=_arrival)
        # A first gate with just so many inputs that all later ones are full.
        count = (len(operands) - 2) % (LUT_INPUTS - 1) + 2
        operands = [*operands[count:], _Gate(conjunction, tuple(operands[:count]))]
    return operands[0]


def _arrival(node):
    return node.delay + max(map(_arrival, node.parts), default=0)


def _reachable(node):
    return {node}.union(*map(_reachable, node.parts))


def _schedule(root, stages):
    """Place each node as early as it can be without making the slowest stage slower.

    Returns
    -------
    stage_of, slowest
        The stage of each node, and the delay of the slowest stage.
    """

    def place(limit):
        """Return for each node its stage and when it is ready in that stage."""
        ready = {}

        def visit(node):
            if node not in ready:
                stage, start = max(map(visit, node.parts), default=(0, 0))
                late = start + node.delay > limit
                ready[node] = (stage + 1, node.delay) if late else (stage, start + node.delay)
            return ready[node]

        visit(root)
        return ready

    # A node without parts reads the ports, so it has to fit into the first stage.
    limits = range(max(node.delay for node in _reachable(root)), _arrival(root) + 1)
    last = max(stages - 1, 0)
    slowest = limits[bisect_left(limits, True, key=lambda limit: place(limit)[root][0] <= last)]
    return {node: stage for node, (stage, _) in place(slowest).items()}, slowest
