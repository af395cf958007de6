"""Which row a core reads, and for which tuple."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import packet_layout

__all__ = ["Sequencer"]


class Sequencer(wiring.Component):
    """Lead each tuple past all rows of the opposite region, one tuple right behind the other.

    A tuple takes a cycle per row, one more if it is read oldest first, and a punctuation takes one
    cycle. There is no cycle in between.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    rows : int
        Most rows of a region.

    Members
    -------
    i : ``In(stream.Signature(packet_layout(plan)))``
        Tuples and punctuations, in order.
    hold : ``In(1)``
        Stay where you are, from this cycle on.
    last_r, last_s, start_r, start_s : In
        Last row in use of each region, and row at which an ordered scan begins; it reads all rows.
    begin_r, begin_s, reach_r, reach_s : In
        Row at which any other scan begins, and rows behind it that have to be read.
    clear : ``Out(1)``
        Both regions are to be emptied.
    packet, present : Out
        What is led past the rows. Valid if ``present``, in cycles without ``hold``.
    row, first, ends : Out
        The row that is read for it.
    arrives : ``Out(2)``
        It is a tuple of R, of S, in its first cycle.
    """

    def __init__(self, plan, *, rows):
        row = range(rows)
        super().__init__(
            {
                "i": In(stream.Signature(packet_layout(plan))),
                "hold": In(1),
                **{
                    f"{name}_{side}": In(row)
                    for name in ("last", "start", "begin", "reach")
                    for side in "rs"
                },
                "clear": Out(1),
                "packet": Out(packet_layout(plan)),
                "present": Out(1),
                "row": Out(row),
                "first": Out(1),
                "ends": Out(1),
                "arrives": Out(2),
            }
        )
        self.rows = rows

    def elaborate(self, platform):
        m = Module()

        last = Signal.like(self.row)
        left = Signal(range(self.rows + 1))  # rows after this one
        coming = self.i.p
        opposite, start, begin, reach = (
            Signal.like(last, name=f"opposite_{name}")
            for name in ("last", "start", "begin", "reach")
        )
        free = Signal()
        m.d.comb += [
            opposite.eq(Mux(coming.side, self.last_r, self.last_s)),
            start.eq(Mux(coming.side, self.start_r, self.start_s)),
            begin.eq(Mux(coming.side, self.begin_r, self.begin_s)),
            reach.eq(Mux(coming.side, self.reach_r, self.reach_s)),
            free.eq(~self.present | self.ends),
            self.i.ready.eq(free & ~self.hold),
            self.clear.eq(self.i.valid & self.i.ready & coming.flush),
        ]
        with m.If(~self.hold):
            with m.If(free):
                own = Cat(~coming.side, coming.side)
                m.d.sync += [
                    self.present.eq(self.i.valid),
                    self.packet.eq(coming),
                    self.arrives.eq(own & (self.i.valid & coming.tuple).replicate(2)),
                    last.eq(opposite),
                    self.row.eq(Mux(coming.inner, start, begin)),
                    self.first.eq(1),
                    left.eq(Mux(coming.inner, opposite + 1, reach)),
                    self.ends.eq(~coming.tuple | (~coming.inner & (reach == 0))),
                ]
            with m.Else():
                m.d.sync += [
                    self.arrives.eq(0),
                    self.row.eq(Mux(self.row == last, 0, self.row + 1)),
                    self.first.eq(0),
                    left.eq(left - 1),
                    self.ends.eq(left == 1),
                ]
        return m
