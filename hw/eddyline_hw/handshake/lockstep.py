"""The lock-step chain: all cores move at once (sections 3.4 and 4.1, appendix A)."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.admission import Admission, Policy
from eddyline_hw.handshake.geometry import Segments, require_fit
from eddyline_hw.handshake.lockstep_core import LockstepCore
from eddyline_hw.handshake.overflow import OverflowGuard
from eddyline_hw.layouts import message_layout, result_layout
from eddyline_hw.readout import read_out
from eddyline_hw.stream.registered import gather, tell, tree_depth

__all__ = ["LockstepChain"]

# Cycles between a row's way into a queue and the throttle that it causes, at both ends of the way.
THROTTLE_DELAY = 6


class LockstepChain(wiring.Component):
    """Join two streams that move through a row of cores in opposite directions, in lock step.

    R enters at the first core and S at the last one. With every tuple that enters, each core hands
    its oldest tuple of that side to its neighbour, and compares what it gets itself with all it
    holds of the other side. A tuple is admitted every ``max(1, ceil(share / lanes))`` cycles,
    where ``share`` is the largest part of the opposite window on one core, without a bubble while
    there is room for results.

    Parameters
    ----------
    plan : Plan
        Gives predicate and layouts; windows are a run-time setting.
    cores : int
        Length of the chain.
    window_r, window_s : int
        Largest windows that can be set.
    lanes : int
        Comparators per core.
    stages : int
        Registers inside the predicate.
    window : str
        Kind of window, see :func:`eddyline_hw.window.make_window`.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    i : ``In(stream.Signature(message_layout(plan)))``
        Messages in order of arrival.
    o : ``Out(stream.Signature(result_layout(plan, carried))).array(cores)``
        Results of each core. Every core answers a star with a star.
    overflow : ``Out(1)``
        A tuple had to leave while it was still young: pairs are missing. Stays until reset.
    other In members
        Settings; :meth:`settings` gives their values. Constant between reset and reset.
    other Out members
        Counters. ``dropped_results``, ``comparisons`` and ``peak`` are those of core ``selected``.
    """

    kind = "lockstep"

    def __init__(
        self,
        plan,
        *,
        cores,
        window_r,
        window_s,
        lanes=1,
        stages=2,
        window="auto",
        carried=(),
        fan=4,
    ):
        self.plan = plan
        self.cores = cores
        self.capacity = {"r": window_r, "s": window_s}
        self.fan = fan
        segments = {
            side: Segments(cores, size, lockstep=True).largest
            for side, size in self.capacity.items()
        }
        self.lanes = min(lanes, max(segments.values()))
        self.rows = {side: -(-slots // self.lanes) for side, slots in segments.items()}

        def core(margin):
            return LockstepCore(
                plan,
                segment_r=segments["r"],
                segment_s=segments["s"],
                lanes=self.lanes,
                margin=margin,
                stages=stages,
                window=window,
                carried=carried,
            )

        depth = tree_depth(cores, fan)
        sample = 1 + 2 + 1 + stages + 1  # the longest way through windows and comparators
        # Appendix A.3 leaves room for one tuple's results, as if the chain stopped at once. Steps
        # under way when the throttle rises still come, at most one row of them per cycle.
        margin = max(self.rows.values()) + 2 * depth + sample + THROTTLE_DELAY
        self.core = [core(margin) for _ in range(cores)]
        self.windows = self.core[0].windows
        pace = max(*self.rows.values(), *(one.interval for one in self.windows.values()))
        self.admission = Admission(plan, slots=max(segments.values()) * cores, pace=pace)
        members = {
            "i": In(stream.Signature(message_layout(plan))),
            "o": Out(stream.Signature(result_layout(plan, carried))).array(cores),
            "policy": In(Policy),
            "selected": In(range(max(cores, 2))),
            "keep": In(2),
            "overflow": Out(1),
            "slots_r": In(self.admission.slots_r.shape()),
            "dropped_tuples": Out(32),
            "throttled": Out(32),
            "paced": Out(32),
            "dropped_results": Out(32),
            "comparisons": Out(32),
            "peak": Out(self.core[0].peak.shape()),
        }
        for side in "rs":
            members[f"extra_{side}"] = In(range(max(cores, 2)))
            for name in ("pace", "period", "bubbles"):
                members[f"{name}_{side}"] = In(getattr(self.admission, f"{name}_{side}").shape())
            place = self.windows[side].last.shape()
            for name in ("short", "long"):
                for part in ("row", "lane"):  # at least one bit, also where there is no choice
                    members[f"{name}_{part}_{side}"] = In(max(1, place[part].width))
        super().__init__(members)

    def settings(self, window_r, window_s, *, policy=Policy.WAIT, keep_r=False, keep_s=False):
        """Return the values of all settings for windows of these sizes.

        ``keep_r`` and ``keep_s`` say that no tuple of that side may ever leave: then the first
        one that does is an overflow.
        """
        values = {"policy": policy.value, "keep": keep_r | keep_s << 1}
        for side, size in (("r", window_r), ("s", window_s)):
            require_fit(side, size, self.capacity[side])
            share = Segments(self.cores, size, lockstep=True)
            values |= {
                f"extra_{side}": share.extra,
                f"period_{side}": share.period - 1,
                f"bubbles_{side}": share.bubbles,
            }
            width = self.windows[side].width
            for name, slots in (("short", share.base), ("long", share.largest)):
                row, lane = divmod(slots - 1, width)
                values |= {f"{name}_row_{side}": row, f"{name}_lane_{side}": lane}
            if side == "r":
                values["slots_r"] = share.total - 1
            # A step of the other side reads this one's rows.
            rows = -(-share.largest // width)
            least = max(one.interval for one in self.windows.values())
            values[f"pace_{'sr'[side == 's']}"] = max(rows, least) - 1
        return values

    def elaborate(self, platform):
        m = Module()

        m.submodules.admission = admission = self.admission
        wiring.connect(m, wiring.flipped(self.i), admission.i)
        m.d.comb += [
            admission.policy.eq(self.policy),
            admission.slots_r.eq(self.slots_r),
            self.dropped_tuples.eq(admission.dropped),
            self.throttled.eq(admission.throttled),
            self.paced.eq(admission.paced),
        ]
        for side in "rs":
            for name in ("pace", "period", "bubbles"):
                own = f"{name}_{side}"
                m.d.comb += getattr(admission, own).eq(getattr(self, own))

        steps = tell(m, admission.step, self.cores, fan=self.fan)
        for position, core in enumerate(self.core):
            m.submodules[f"core{position}"] = core
            m.d.comb += core.step.eq(steps[position])
            m.d.sync += core.shed.eq(self.policy == Policy.DROP_RESULTS)
            for side, place in (("r", position), ("s", self.cores - 1 - position)):
                last = getattr(core, f"last_{side}")
                more = place < getattr(self, f"extra_{side}")
                for name in ("row", "lane"):
                    short = getattr(self, f"short_{name}_{side}")
                    long = getattr(self, f"long_{name}_{side}")
                    m.d.sync += last[name].eq(Mux(more, long, short))
            wiring.connect(m, core.o, wiring.flipped(self.o[position]))

        for left, right in zip(self.core, self.core[1:], strict=False):
            m.d.comb += [right.r_in.eq(left.r_out), left.s_in.eq(right.s_out)]
        first, last = self.core[0], self.core[-1]
        # A core acts in the cycle after it was told.
        entering, leaving = (Signal.like(steps[0], name=n) for n in ("at_first", "at_last"))
        m.d.sync += [entering.eq(steps[0]), leaving.eq(steps[-1])]
        m.d.comb += [
            first.r_in.valid.eq(entering.valid),
            first.r_in.entry.eq(entering.entry),
            last.s_in.valid.eq(leaving.valid),
            last.s_in.entry.eq(leaving.entry),
        ]
        m.d.comb += admission.throttle.eq(
            gather(m, [core.throttle for core in self.core], fan=self.fan)
        )

        far_ends = {"r": (leaving, last.r_out), "s": (entering, first.s_out)}
        guards = []
        for number, (side, (step, slot)) in enumerate(far_ends.items()):
            m.submodules[f"guard_{side}"] = guard = OverflowGuard(self.plan, side=side)
            m.d.comb += [
                guard.leaves.eq(step.move & (step.side == number) & step.valid & slot.valid),
                guard.old.eq(slot.entry),
                guard.new.eq(step.entry),
                guard.keep.eq(self.keep[number]),
            ]
            guards.append(guard.overflow)
        m.d.sync += self.overflow.eq(guards[0] | guards[1])

        read_out(m, self, ("dropped_results", "comparisons", "peak"), self.core)
        return m
