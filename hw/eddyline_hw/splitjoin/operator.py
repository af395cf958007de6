"""The whole SplitJoin operator."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.geometry import require_fit
from eddyline_hw.layouts import entry_layout, message_layout
from eddyline_hw.readout import read_out
from eddyline_hw.splitjoin.adaptive import AdaptivePrecision
from eddyline_hw.splitjoin.collection import CollectionTree
from eddyline_hw.splitjoin.combiner import Combiner, leave
from eddyline_hw.splitjoin.core import SplitCore
from eddyline_hw.splitjoin.distributor import Distributor
from eddyline_hw.splitjoin.exit import Exit
from eddyline_hw.splitjoin.gate import Gate
from eddyline_hw.splitjoin.layouts import (
    item_layout,
    joined_layout,
    record_layout,
    request_layout,
)
from eddyline_hw.splitjoin.precision import LOG_BITS, Precision, order_settings
from eddyline_hw.splitjoin.region import Region
from eddyline_hw.splitjoin.serializer import PunctuatedSerializer
from eddyline_hw.splitjoin.tree import DistributionTree
from eddyline_hw.stream.copy import Copy
from eddyline_hw.stream.fifo import Fifo
from eddyline_hw.stream.preview import Preview
from eddyline_hw.stream.registered import gather
from eddyline_hw.stream.room import RoomQueue
from eddyline_hw.stream.tickets import TicketQueue
from eddyline_hw.tally import tally

__all__ = ["SplitJoin"]

# Arrivals that may be under way while each is closed on its own.
ORDER_DEPTH = 64
SHALLOW = 16  # what one block of look-up-table memory holds
CORE_SETTINGS = ("keep", "last_r", "last_s", "young_from_r", "young_from_s")
CORE_COUNTERS = ("comparisons", "busy", "peak")
GATE_COUNTERS = ("unstored_r", "unstored_s")


class SplitJoin(wiring.Component):
    """Join two streams over sliding windows (Najafi, Sadoghi and Jacobsen).

    Every tuple goes to all cores through a tree. Each compares it with its share of the opposite
    window, and one of them keeps it. Results of R and of S arrivals come back through a tree each
    and are combined at the end. Nothing is lost when the output stalls: the input waits.

    A tuple is taken every ``max(1, ceil(slots / lanes))`` cycles, where ``slots`` is the share of
    the opposite window on one core; with inner order later, see :meth:`rows`.

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
        at any time; a change holds for all messages taken from that cycle on, and for those
        before, up to 13, that are still waiting behind the input. With ``adaptive`` the load
        decides; see :class:`eddyline_hw.splitjoin.adaptive.AdaptivePrecision`.
    disabled : ``In(cores)``
        Cores to be switched off, until reset. At least one has to stay.
    last_row_r, last_lane_r, young_from_r, last_row_s, last_lane_s, young_from_s, keep : In
        Windows; :meth:`settings` gives the values. May change behind a flush.
    interval, inner_interval : ``Out(16)``
        What ``adaptive`` has come to: arrivals per group, and intervals of ``cores`` partners
        between stars of inner order, which are 0 where it is outer.
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
        # A scan in inner order has an interval for each slot, and one more.
        self.coarsest_log = min(max(self.slots.values()).bit_length(), (1 << LOG_BITS) - 1)
        self.stages = stages
        self.carried = tuple(carried)
        self.separate = separate
        self.tree = DistributionTree(plan, outputs=cores, fan_out=fan_out)
        self.core = [
            SplitCore(
                plan,
                position=position,
                cores=cores,
                slots_r=self.slots["r"],
                slots_s=self.slots["s"],
                lanes=self.lanes,
                stages=stages,
                flight=2 * self.tree.latency + 2,  # there and back, and at the distributor
                memory=memory,
                carried=carried,
            )
            for position in range(cores)
        ]
        self.merge = {
            side: CollectionTree(
                plan,
                inputs=cores,
                flight=SplitCore.flight,
                lag=SplitCore.lag,
                fan_in=fan_in,
                carried=carried,
            )
            for side in "rs"
        }
        self._entrance = TicketQueue(
            request_layout(), entry_layout(plan), flight=0, foretells=False
        )
        self._distributor = Distributor()
        self._room_for_records = Signal(init=1)
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
            "inner_interval": Out(16),
            "overflow": Out(1),
            "waited": Out(32),
            "selected": In(range(max(cores, 2))),
        }
        for side in "rs":
            place = getattr(self.core[0], f"last_{side}").shape()
            for part in ("row", "lane"):  # at least one bit, also where there is no choice
                members[f"last_{part}_{side}"] = In(max(1, place[part].width))
            members[f"young_from_{side}"] = In(max(1, (cores - 1).bit_length()))
        members |= {name: Out(32) for name in (*CORE_COUNTERS, *GATE_COUNTERS)}
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

    def rows(self, side, window, *, inner=False, strict=False):
        """Return the cycles that a tuple takes whose partners are in a ``window`` of ``side``.

        With ``inner`` order it reads a row twice, and where that is ``strict``, so with a star for
        every interval, it takes a cycle for each star. In a window of time these are the most: rows
        without young tuples are left out.
        """
        slots = max(-(-window // self.cores), 1 + self.timed[side])
        return slots + 1 if strict else -(-slots // self.core[0].regions[side].width) + inner

    def latency(self, side, window, **order):
        """Return the cycles from a tuple without pairs at ``i`` to its final star at ``o``.

        In an idle operator, with order ``OUTER`` (every arrival) or ``INNER``; ``side`` and
        ``window`` are those of the partners, and ``order`` as for :meth:`rows`. With inner order
        this holds if ``every`` is 1, or leaves the arrival's final star as the only one.
        """
        queue = TicketQueue.latency
        entrance = RoomQueue.latency + 1 + self.tree.latency
        core = queue + 1 + Region.latency + self.rows(side, window, **order) - 1
        comparators = self.core[0].matcher.latency
        results = queue + PunctuatedSerializer.flight - 1
        leaving = (2 if self.separate else Combiner.flight - 1) + Exit.latency
        return entrance + core + comparators + results + self.merge["r"].latency + leaving

    def elaborate(self, platform):
        m = Module()
        self._enter(m)
        self._connect_cores(m)
        exits = self._leave_separately(m) if self.separate else self._combine(m)
        lost = [one.overrun for one in (self._entrance, *self.merge.values(), *exits)]
        overflows = [core.overflow for core in self.core]
        m.d.comb += self.overflow.eq(gather(m, [*lost, *overflows]))
        return m

    def _enter(self, m):
        """Turn messages into packets, as long as there is room in all cores."""
        m.submodules.entrance = entrance = self._entrance
        m.submodules.distributor = distributor = self._distributor
        m.submodules.adaptive = adaptive = AdaptivePrecision(coarsest_log=self.coarsest_log)
        m.submodules.tree = tree = self.tree
        message = self.i.p
        m.d.comb += [
            self.i.ready.eq(entrance.room),
            entrance.push.eq(self.i.valid & self.i.ready),
            *(entrance.head[name].eq(message[name]) for name, _ in request_layout()),
            entrance.body.eq(message.entry),
            tree.push.eq(distributor.push),
            tree.packet.eq(distributor.packet),
            tree.entry.eq(entrance.follows),
            distributor.precision.mode.eq(self.precision_mode),
            distributor.precision.every.eq(self.outer_every),
            distributor.precision.log.eq(self.inner_log),
            distributor.precision.adaptive.eq(self.adaptive),
            distributor.inner.eq(adaptive.inner),
            distributor.log.eq(adaptive.log),
            distributor.interval.eq(adaptive.interval),
            self.interval.eq(adaptive.interval),
        ]
        m.d.sync += self.inner_interval.eq(adaptive.inner << adaptive.log)
        wiring.connect(m, entrance.o, distributor.i)
        m.d.sync += distributor.room.eq(tree.room & self._room_for_records)
        offered, waits = Signal(), Signal()
        m.d.sync += [offered.eq(self.i.valid), waits.eq(self.i.valid & ~self.i.ready)]
        crowded = gather(m, [*(core.held for core in self.core), ~self._room_for_records])
        m.d.comb += [
            adaptive.offered.eq(offered),
            adaptive.waits.eq(waits),
            adaptive.held.eq(crowded),
        ]
        tally(m, self.waited, waits)

    def _connect_cores(self, m):
        """Put a gate in front of each core and the trees behind."""
        tree, gates = self.tree, []
        for position, core in enumerate(self.core):
            m.submodules[f"core{position}"] = core
            m.submodules[f"gate{position}"] = gate = Gate(position=position, cores=self.cores)
            gates.append(gate)
            m.d.comb += [
                gate.push.eq(tree.pushes[position]),
                gate.packet.eq(tree.packets[position]),
                gate.has_room.eq(core.room),
                gate.disabled.eq(self.disabled[position]),
                tree.rooms[position].eq(gate.room),
                core.push.eq(gate.passes),
                core.packet.eq(tree.packets[position]),
                core.entry.eq(tree.entries[position]),
            ]
            settings = {name: getattr(core, name) for name in CORE_SETTINGS}
            copy = Copy(data.StructLayout({name: one.shape() for name, one in settings.items()}))
            m.submodules[f"relay_settings{position}"] = copy
            m.d.comb += [value.eq(copy.o[name]) for name, value in settings.items()]
            m.d.comb += copy.i.keep.eq(self.keep)
            for side in "rs":
                place = copy.i[f"last_{side}"]
                m.d.comb += [
                    place.row.eq(getattr(self, f"last_row_{side}")),
                    place.lane.eq(getattr(self, f"last_lane_{side}")),
                    copy.i[f"young_from_{side}"].eq(getattr(self, f"young_from_{side}")),
                ]
        # Hundreds of multiplexers, all over the chip: with as little logic as there can be, and a
        # copy of what they go by for each counter.
        for counters, owners in ((CORE_COUNTERS, self.core), (GATE_COUNTERS, gates)):
            for name in counters:
                m.submodules[f"relay_{name}"] = relay = Copy(self.selected.shape())
                m.d.comb += relay.i.eq(self.selected)
                read_out(m, self, [name], owners, chosen=relay.o, fan_bits=1)
        enabled = Cat(gate.enabled for gate in gates)
        for number, (side, merge) in enumerate(self.merge.items()):
            m.submodules[f"merge_{side}"] = merge
            m.d.comb += merge.enabled.eq(enabled)
            for position, core in enumerate(self.core):
                m.d.comb += [
                    merge.pushes[position].eq(core.sends[number]),
                    merge.items[position].eq(core.item),
                    merge.pairs[position].eq(core.pair),
                    core.taken[number].eq(merge.rooms[position]),
                ]

    def _combine(self, m):
        """Restore the order over both sides."""
        # Shallow queues in a row: there is time, and a deep memory would be slow.
        m.submodules.order = order = RoomQueue(record_layout(), depth=SHALLOW, flight=4)
        records = order.o
        for number in range(1, ORDER_DEPTH // SHALLOW):
            clears = tuple(dict(record_layout()))
            more = Fifo(record_layout(), depth=SHALLOW, clears=clears)
            m.submodules[f"order{number}"] = more
            wiring.connect(m, records, more.i)
            records = more.o
        m.submodules.orders = orders = Preview(record_layout())
        m.submodules.combiner = combiner = Combiner(self.plan, carried=self.carried)
        m.submodules.exit = leaving = Exit(combiner.joined.shape(), flight=Combiner.flight)
        wiring.connect(m, records, orders.i)
        wiring.connect(m, orders.o, combiner.records)
        wiring.connect(m, leaving.o, wiring.flipped(self.o))
        # From one end of the operator to the other; there is time until the first result comes.
        m.d.sync += [
            order.push.eq(self._distributor.notes),
            order.payload.eq(self._distributor.record),
            self._room_for_records.eq(order.room),
        ]
        m.d.comb += [
            combiner.room.eq(leaving.room),
            leaving.push.eq(combiner.push),
            leaving.payload.eq(combiner.joined),
        ]
        for number, merge in enumerate(self.merge.values()):
            wiring.connect(m, merge.o, combiner.i[number])
            m.d.comb += combiner.pairs[number].eq(merge.pair)
        return [order, leaving]

    def _leave_separately(self, m):
        """Let both sides out as they are."""
        m.d.comb += self._room_for_records.eq(1)
        exits = []
        for side, merge in self.merge.items():
            port = getattr(self, f"o_{side}")
            m.submodules[f"exit_{side}"] = leaving = Exit(port.p.shape(), flight=2)
            wiring.connect(m, leaving.o, wiring.flipped(port))
            first, second = Signal(item_layout()), Signal(item_layout())
            took, takes = Signal(name=f"took_{side}"), Signal(name=f"takes_{side}")
            m.d.comb += merge.o.ready.eq(~merge.o.valid | leaving.room)
            m.d.sync += [
                takes.eq(
                    merge.o.valid & merge.o.ready & ~(merge.o.payload.star & merge.o.payload.hidden)
                ),
                took.eq(takes),
                first.eq(merge.o.payload),
                second.eq(first),
            ]
            leave(m, second, merge.pair, leaving.payload)
            m.d.comb += leaving.push.eq(took)
            with m.If(~second.star):
                m.d.comb += leaving.payload.side.eq("rs".index(side))
            exits.append(leaving)
        return exits
