"""One core of the lock-step chain."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.handshake.matcher import Matcher
from eddyline_hw.layouts import entry_layout, result_layout
from eddyline_hw.window import make_window
from eddyline_hw.window.signature import place_layout, slot_layout

__all__ = ["LockstepCore", "step_layout"]


def step_layout(plan):
    """Return what all cores are told at once.

    ``move``
        The tuples of ``side`` move on by one slot; ``valid`` says whether a tuple comes in at the
        end of the chain (then it is ``entry``) or a bubble.
    ``star``
        A punctuation passes.
    ``clear``
        The windows are emptied.
    """
    return data.StructLayout(
        {"move": 1, "star": 1, "clear": 1, "side": 1, "valid": 1, "entry": entry_layout(plan)}
    )


class LockstepCore(wiring.Component):
    """Hold a segment of both windows and compare what enters one with all of the other.

    A step takes one cycle per row of the opposite segment, and the next step may follow at once.
    All reads and writes of a step happen in the cycles that are its own, so what a step stores is
    there for the next one.

    Parameters
    ----------
    plan : Plan
        Gives predicate and layouts.
    segment_r, segment_s : int
        Slots for each side.
    lanes : int
        Comparators, from 1 to the larger segment.
    margin : int
        Rows that may still be compared after ``throttle`` has risen.
    stages : int
        Registers inside the predicate.
    window : str
        Kind of window, see :func:`eddyline_hw.window.make_window`.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    step : In
        What to do in the next cycle. Steps must be as far apart as reading the opposite segment
        takes, and as the windows' ``interval`` says.
    last_r, last_s : In
        Place of the last slot in use of each segment.
    r_in, s_in, r_out, s_out
        What moves to and from the neighbours, taken in the cycle after ``step``.
    shed, throttle, o, dropped_results, comparisons, peak
        See :class:`eddyline_hw.handshake.matcher.Matcher`.
    """

    def __init__(
        self, plan, *, segment_r, segment_s, lanes, margin, stages=2, window="auto", carried=()
    ):
        entry = entry_layout(plan)
        self.plan = plan
        self.lanes = lanes
        self.windows = {
            side: make_window(entry, slots=slots, lanes=min(lanes, slots), kind=window)
            for side, slots in (("r", segment_r), ("s", segment_s))
        }
        self.matcher = Matcher(plan, lanes=lanes, margin=margin, stages=stages, carried=carried)
        slot = slot_layout(entry)
        super().__init__(
            {
                "step": In(step_layout(plan)),
                **{
                    f"last_{side}": In(place_layout(one.slots, one.width))
                    for side, one in self.windows.items()
                },
                "r_in": In(slot),
                "s_in": In(slot),
                "r_out": Out(slot),
                "s_out": Out(slot),
                "shed": In(1),
                "throttle": Out(1),
                "o": Out(stream.Signature(result_layout(plan, carried))),
                "dropped_results": Out(32),
                "comparisons": Out(32),
                "peak": Out(self.matcher.peak.shape()),
            }
        )

    @property
    def latency(self):
        """Cycles from a step to the first row's way into the queue."""
        return 1 + max(one.latency for one in self.windows.values()) + self.matcher.latency

    def elaborate(self, platform):
        m = Module()

        m.submodules.window_r = window_r = self.windows["r"]
        m.submodules.window_s = window_s = self.windows["s"]
        m.submodules.matcher = matcher = self.matcher
        step = Signal.like(self.step)  # a copy of its own: it drives every lane
        m.d.sync += step.eq(self.step)

        m.d.comb += [
            window_r.last.eq(self.last_r),
            window_s.last.eq(self.last_s),
            window_r.clear.eq(step.clear),
            window_s.clear.eq(step.clear),
            window_r.push.eq(step.move & ~step.side),
            window_s.push.eq(step.move & step.side),
            window_r.entering.eq(self.r_in),
            window_s.entering.eq(self.s_in),
            self.r_out.eq(window_r.leaving),
            self.s_out.eq(window_s.leaving),
        ]

        # Row 0 is read in the cycle of the step itself, the others in the cycles that follow.
        row_r, row_s = Signal.like(window_r.row), Signal.like(window_s.row)
        more = Signal()
        probe = Signal.like(matcher.probe)
        m.d.comb += [
            window_r.row.eq(Mux(step.move, 0, row_r)),
            window_s.row.eq(Mux(step.move, 0, row_s)),
        ]
        with m.If(step.move):
            m.d.sync += [
                row_r.eq(1),
                row_s.eq(1),
                more.eq(Mux(step.side, self.last_r.row != 0, self.last_s.row != 0)),
                probe.side.eq(step.side),
                probe.entry.eq(Mux(step.side, self.s_in.entry, self.r_in.entry)),
                probe.valid.eq(Mux(step.side, self.s_in.valid, self.r_in.valid)),
            ]
        with m.Elif(more):
            last = Mux(probe.side, row_r == self.last_r.row, row_s == self.last_s.row)
            m.d.sync += [row_r.eq(row_r + 1), row_s.eq(row_s + 1), more.eq(~last)]
        reading = Signal()
        m.d.sync += [reading.eq(step.move | more), probe.star.eq(step.star)]

        latency = max(one.latency for one in self.windows.values())
        current = Signal.like(probe)
        m.d.comb += [current.eq(probe), current.valid.eq(probe.valid & reading)]
        for _ in range(latency - 1):
            m.d.sync += (later := Signal.like(current)).eq(current)
            current = later
        m.d.comb += matcher.probe.eq(current)

        lanes_r, lanes_s = (_delayed(m, one, latency) for one in (window_r, window_s))
        for lane, partner in enumerate(matcher.partners):
            from_r = lanes_r[lane] if lane < len(lanes_r) else 0
            from_s = lanes_s[lane] if lane < len(lanes_s) else 0
            m.d.comb += partner.as_value().eq(Mux(current.side, from_r, from_s))

        wiring.connect(m, matcher.o, wiring.flipped(self.o))
        m.d.comb += [
            matcher.shed.eq(self.shed),
            self.throttle.eq(matcher.throttle),
            self.dropped_results.eq(matcher.dropped),
            self.comparisons.eq(matcher.comparisons),
            self.peak.eq(matcher.peak),
        ]
        return m


def _delayed(m, window, latency):
    """Return a window's lanes as values, as late as those of the slower window."""
    lanes = [lane.as_value() for lane in window.lanes]
    for _ in range(latency - window.latency):
        later = [Signal.like(lane) for lane in lanes]
        m.d.sync += [new.eq(old) for new, old in zip(later, lanes, strict=True)]
        lanes = later
    return lanes
