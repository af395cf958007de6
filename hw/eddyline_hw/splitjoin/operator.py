"""The whole SplitJoin operator."""

from amaranth import Array, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.geometry import require_fit
from eddyline_hw.layouts import message_layout
from eddyline_hw.splitjoin.adaptive import AdaptiveInterval
from eddyline_hw.splitjoin.combiner import Combiner, leave
from eddyline_hw.splitjoin.core import SplitCore
from eddyline_hw.splitjoin.distributor import Distributor
from eddyline_hw.splitjoin.gate import Gate
from eddyline_hw.splitjoin.layouts import (
    item_layout,
    joined_layout,
    packet_layout,
    record_layout,
)
from eddyline_hw.splitjoin.precision import LOG_BITS, Precision, order_settings
from eddyline_hw.stream.broadcast import BroadcastTree
from eddyline_hw.stream.buffer import Buffer
from eddyline_hw.stream.fifo import Fifo
from eddyline_hw.stream.merge import MergeTree

__all__ = ["SplitJoin"]

# Arrivals that may be under way while each is closed on its own.
ORDER_DEPTH = 128
COUNTERS = ("comparisons", "busy", "peak", "unstored_r", "unstored_s")


class SplitJoin(wiring.Component):
    """Join two streams over sliding windows (Najafi, Sadoghi and Jacobsen).

    Every tuple goes to all cores through a tree. Each compares it with its share of the opposite
    window, and one of them keeps it. Results of R and of S arrivals come back through a tree each
    and are combined at the end. Nothing is lost when the output stalls: the input waits.

    A tuple is taken every ``max(1, ceil(slots / lanes))`` cycles, where ``slots`` is the share of
    the opposite window on one core; with inner order one cycle later.

    Parameters
    ----------
    plan : Plan
        Gives predicate and layouts; windows are a run-time setting.
    cores : int
        Number of cores.
    window_r, window_s : int
        Largest windows that can be set.
    lanes : int
        Comparators per core.
    stages : int
        Registers inside the predicate.
    fan_out, fan_in : int
        Branches of a node of the trees in front of the cores and behind them.
    memory : str
        What windows are kept in: ``lutram``, ``bram``, or ``auto`` for what suits their size.
    carried : iterable of str
        Words of R that come along in the results.
    separate : bool
        Leave the combiner out: there are outputs ``o_r`` and ``o_s`` instead of ``o``. Stars that
        close more than one arrival, and those that answer a message, come on both.

    Members
    -------
    i : ``In(stream.Signature(message_layout(plan)))``
        Messages in order of arrival.
    o : ``Out(stream.Signature(joined_layout(plan, carried)))``
        Pairs and stars.
    precision_mode, outer_every, inner_log, adaptive : In
        How exact the order is; see :class:`eddyline_hw.splitjoin.precision.Precision`. May change
        at any time; a change holds for all messages taken from that cycle on, and for one or two
        before, if they are still waiting behind the input.
    disabled : ``In(cores)``
        Cores to be switched off, until reset. At least one has to stay.
    last_row_r, last_lane_r, young_from_r, last_row_s, last_lane_s, young_from_s, keep : In
        Windows; :meth:`settings` gives the values. May change behind a flush.
    interval : ``Out(16)``
        Arrivals per group that ``adaptive`` has come to.
    overflow : ``Out(1)``
        A tuple was overwritten that had to stay: pairs are missing. Stays until reset.
    waited : ``Out(32)``
        Cycles in which a message waited at ``i``.
    selected : In
        Core whose counters are shown, some cycles later: ``comparisons``, ``busy`` (cycles in which
        its comparators had a row), ``peak`` (most rows in its queue), ``unstored_r`` and
        ``unstored_s`` (tuples that were its to keep while it was off).
    """

    kind = "splitjoin"
    output_domain = "sync"

    def __init__(
        self,
        plan,
        *,
        cores,
        window_r,
        window_s,
        lanes=1,
        stages=2,
        fan_out=4,
        fan_in=4,
        memory="auto",
        carried=(),
        separate=False,
    ):
        if cores < 1:
            raise ValueError(f"a SplitJoin operator needs at least 1 core, not {cores!r}")
        if lanes < 1:
            raise ValueError(f"a core needs at least 1 lane, not {lanes!r}")
        self.plan = plan
        self.cores = cores
        self.capacity = {"r": window_r, "s": window_s}
        timed = {
            side: any(word.name == "until" for word in plan.layout(side).words) for side in "rs"
        }
        self.timed = timed
        self.slots = {
            side: max(-(-size // cores), 1 + timed[side]) for side, size in self.capacity.items()
        }
        self.lanes = min(lanes, max(self.slots.values()))
        self.stages = stages
        self.carried = tuple(carried)
        self.separate = separate
        self.core = [
            SplitCore(
                plan,
                position=position,
                cores=cores,
                slots_r=self.slots["r"],
                slots_s=self.slots["s"],
                lanes=self.lanes,
                stages=stages,
                memory=memory,
                carried=carried,
            )
            for position in range(cores)
        ]
        self.tree = BroadcastTree(packet_layout(plan), outputs=cores, fan_out=fan_out)
        self.merge = {
            side: MergeTree(item_layout(plan, carried), inputs=cores, fan_in=fan_in, steered=True)
            for side in "rs"
        }
        joined = Out(stream.Signature(joined_layout(plan, carried)))
        members = {
            "i": In(stream.Signature(message_layout(plan))),
            **({"o_r": joined, "o_s": joined} if separate else {"o": joined}),
            "precision_mode": In(Precision),
            "outer_every": In(16, init=1),
            "inner_log": In(LOG_BITS),
            "adaptive": In(1),
            "disabled": In(cores),
            "keep": In(2),
            "interval": Out(16),
            "overflow": Out(1),
            "waited": Out(32),
            "selected": In(range(max(cores, 2))),
        }
        for side in "rs":
            place = getattr(self.core[0], f"last_{side}").shape()
            for part in ("row", "lane"):  # at least one bit, also where there is no choice
                members[f"last_{part}_{side}"] = In(max(1, place[part].width))
            members[f"young_from_{side}"] = In(max(1, (cores - 1).bit_length()))
        members |= {name: Out(32) for name in COUNTERS}
        super().__init__(members)

    def settings(
        self,
        window_r,
        window_s,
        *,
        order_mode=Precision.NONE,
        every=1,
        keep_r=False,
        keep_s=False,
    ):
        """Return the values of all settings for windows of these sizes.

        For ``every`` see :func:`eddyline_hw.splitjoin.precision.order_settings`. ``keep_r`` and
        ``keep_s`` say that no tuple of that side may ever be overwritten.
        """
        values = order_settings(order_mode, every) | {"keep": keep_r | keep_s << 1}
        for side, size, kept in (("r", window_r, keep_r), ("s", window_s, keep_s)):
            require_fit(side, size, self.capacity[side])
            # What is not bounded by a number of tuples uses all of its slots.
            whole = kept or self.timed[side]
            slots = max(-(-size // self.cores), 1 + self.timed[side])
            rest = self.cores if whole else size - (slots - 1) * self.cores
            row, lane = divmod(slots - 1, self.core[0].regions[side].width)
            values |= {
                f"last_row_{side}": row,
                f"last_lane_{side}": lane,
                f"young_from_{side}": self.cores - rest,
            }
        return values

    def rows(self, side, window, *, inner=False):
        """Return the cycles that a tuple takes whose partners are in a ``window`` of ``side``.

        In a window of time these are the most: rows without young tuples are left out.
        """
        slots = max(-(-window // self.cores), 1 + self.timed[side])
        return -(-slots // self.core[0].regions[side].width) + inner

    def latency(self, side, window, *, inner=False):
        """Return the cycles from a tuple without pairs at ``i`` to its final star at ``o``.

        In an idle operator, with order ``OUTER`` (every arrival) or ``INNER``; ``side`` and
        ``window`` are those of the partners. With inner order this holds if ``every`` leaves the
        arrival's final star as the only one.
        """
        entrance = 3 + self.tree.latency
        core = 2 + 1 + self.rows(side, window, inner=inner) - 1 + 2
        comparators = self.core[0].matcher.latency
        behind = 2 + 1 + 2 + 1
        return entrance + core + comparators + behind + self.merge["r"].latency + self._exit

    @property
    def _exit(self):
        return 0 if self.separate else 2

    def elaborate(self, platform):
        m = Module()

        m.submodules.entrance = entrance = Buffer(self.i.p.shape())
        m.submodules.distributor = distributor = Distributor(self.plan)
        m.submodules.adaptive = adaptive = AdaptiveInterval()
        m.submodules.start = start = Buffer(packet_layout(self.plan))
        m.submodules.tree = self.tree
        wiring.connect(m, wiring.flipped(self.i), entrance.i)
        wiring.connect(m, entrance.o, distributor.i)
        wiring.connect(m, distributor.o, start.i)
        wiring.connect(m, start.o, self.tree.i)
        m.d.comb += [
            distributor.precision.mode.eq(self.precision_mode),
            distributor.precision.every.eq(self.outer_every),
            distributor.precision.log.eq(self.inner_log),
            distributor.precision.adaptive.eq(self.adaptive),
            distributor.interval.eq(adaptive.interval),
            self.interval.eq(adaptive.interval),
        ]
        offered, waits = Signal(), Signal()
        m.d.sync += [offered.eq(self.i.valid), waits.eq(self.i.valid & ~self.i.ready)]
        m.d.comb += [adaptive.offered.eq(offered), adaptive.waits.eq(waits)]
        with m.If(waits):
            m.d.sync += self.waited.eq(self.waited + 1)

        gates = []
        for position, (core, leaf) in enumerate(zip(self.core, self.tree.o, strict=True)):
            m.submodules[f"core{position}"] = core
            m.submodules[f"gate{position}"] = gate = Gate(
                self.plan, position=position, cores=self.cores
            )
            gates.append(gate)
            wiring.connect(m, leaf, gate.i)
            wiring.connect(m, gate.o, core.i)
            m.d.comb += gate.disabled.eq(self.disabled[position])
            m.d.sync += core.keep.eq(self.keep)
            for side in "rs":
                place = getattr(core, f"last_{side}")
                m.d.sync += [
                    place.row.eq(getattr(self, f"last_row_{side}")),
                    place.lane.eq(getattr(self, f"last_lane_{side}")),
                    getattr(core, f"young_from_{side}").eq(getattr(self, f"young_from_{side}")),
                ]

        for number, (side, merge) in enumerate(self.merge.items()):
            m.submodules[f"merge_{side}"] = merge
            m.d.comb += merge.enabled.eq(Cat(gate.enabled for gate in gates))
            for core, branch in zip(self.core, merge.i, strict=True):
                wiring.connect(m, core.o[number], branch)
        if self.separate:
            m.d.comb += distributor.records.ready.eq(1)
            for side, merge in self.merge.items():
                port = getattr(self, f"o_{side}")
                hidden = merge.o.p.hidden & merge.o.p.star
                leave(m, merge.o.p, port.p)
                m.d.comb += [
                    port.valid.eq(merge.o.valid & ~hidden),
                    merge.o.ready.eq(port.ready | hidden),
                ]
        else:
            m.submodules.order = order = Fifo(record_layout(), depth=ORDER_DEPTH)
            m.submodules.combiner = combiner = Combiner(self.plan, carried=self.carried)
            wiring.connect(m, distributor.records, order.i)
            wiring.connect(m, order.o, combiner.records)
            for port, merge in zip(combiner.i, self.merge.values(), strict=True):
                wiring.connect(m, merge.o, port)
            wiring.connect(m, combiner.o, wiring.flipped(self.o))

        m.d.sync += self.overflow.eq(Cat(core.overflow for core in self.core).any())
        for name in COUNTERS:
            owners = gates if name.startswith("unstored") else self.core
            copies = [Signal(32, name=f"{name}_{number}") for number in range(self.cores)]
            m.d.sync += [
                copy.eq(getattr(owner, name)) for copy, owner in zip(copies, owners, strict=True)
            ]
            m.d.sync += getattr(self, name).eq(Array(copies)[self.selected])
        return m
