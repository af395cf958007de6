"""Which row a core reads, and for which tuple."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.splitjoin.layouts import packet_layout
from eddyline_hw.stream.preview import foretold

__all__ = ["Sequencer"]

PIECE = 3  # bits of a row that are compared at once


class Sequencer(wiring.Component):
    """Lead each tuple past all rows of the opposite region, one tuple right behind the other.

    A tuple takes a cycle per row, one more if it is read oldest first. A punctuation takes one
    cycle, and two if it empties the windows. There is no cycle in between.

    Parameters
    ----------
    rows : int
        Most rows of a region.

    Members
    -------
    i : ``In(foretold(packet_layout()))``
        Tuples and punctuations, in order. Each stays on offer until its last row.
    hold : ``In(1)``
        Stay where you are, from the next cycle on.
    last_r, last_s, start_r, start_s : In
        Last row in use of each region, and row at which an ordered scan begins; it reads all rows.
    begin_r, begin_s, reach_r, reach_s : In
        Row at which any other scan begins, and rows behind it that have to be read.
    start_last_r, start_last_s, begin_last_r, begin_last_s : ``In(1)``
        ``start``, ``begin`` is ``last``.
    only_r, only_s, sole_r, sole_s, pair_r, pair_s, triple_r, triple_s : ``In(1)``
        ``last`` is 0; ``reach`` is 0, it is at most 1, at most 2.
    packet, step : Out
        What was on offer in the last cycle, and whether it was led past a row. All outputs come
        from flip-flops.
    row, first, ends : Out
        That row.
    arrives, arriving : ``Out(2)``
        It is a tuple of R, of S, in its first cycle; it will be in the next one, which does not
        come from flip-flops.
    clear : ``Out(1)``
        Both regions are to be emptied.
    """

    def __init__(self, *, rows):
        row = range(rows)
        super().__init__(
            {
                "i": In(foretold(packet_layout())),
                "hold": In(1),
                **{
                    f"{name}_{side}": In(row)
                    for name in ("last", "start", "begin", "reach")
                    for side in "rs"
                },
                **{
                    f"{name}_{side}": In(1)
                    for name in ("start_last", "begin_last", "sole", "pair", "triple", "only")
                    for side in "rs"
                },
                "packet": Out(packet_layout()),
                "step": Out(1),
                "row": Out(row),
                "first": Out(1),
                "ends": Out(1),
                "arrives": Out(2),
                "arriving": Out(2),
                "clear": Out(1),
            }
        )
        self.rows = rows

    def elaborate(self, platform):
        m = Module()

        # What is on offer is led past a row in this cycle, its first, its last. All of that was
        # decided in the cycle before, by what is on offer now.
        goes, fresh, ends = Signal(), Signal(init=1), Signal()
        packet = self.i.payload
        m.d.comb += self.i.ready.eq(~self.i.valid | (goes & ends))

        def opposite(what, packet=packet):
            """Return what the other region says, or what is kept for it."""
            if isinstance(what, str):
                what = {side: getattr(self, f"{what}_{side}") for side in "rs"}
            return Mux(packet.side, what["r"], what["s"])

        # What the last row in use of each region comes down to.
        left = Signal(range(self.rows + 1))  # rows of a packet behind its first
        whole = {side: Signal.like(left, name=f"whole_{side}") for side in "rs"}
        before = {side: Signal.like(self.row, name=f"before_{side}") for side in "rs"}
        double = {side: Signal(name=f"double_{side}") for side in "rs"}
        few = {side: Signal(name=f"few_{side}") for side in "rs"}
        for side in "rs":
            end = Signal.like(self.row, name=f"end_{side}")
            m.d.sync += [
                end.eq(getattr(self, f"last_{side}")),
                whole[side].eq(end + 1),
                before[side].eq(end - 1),
                double[side].eq(end == 1),
                few[side].eq(end[1:] == 0),
            ]

        soon = Signal()  # the packet ends behind the row that is next
        # Whether the row is the last one, known together with it: if each piece of it is alike.
        # Behind the last row comes row 0, which is the last one only if there is no other.
        pieces = [self.row[at : at + PIECE] for at in range(0, max(1, len(self.row)), PIECE)]
        alike, wraps = Signal(len(pieces)), Signal()
        before_last, only = Signal.like(self.row), Signal()
        m.d.comb += wraps.eq(alike.all())
        first_wraps = Mux(packet.inner, opposite("start_last"), opposite("begin_last"))
        with m.If(goes):
            with m.If(fresh):
                m.d.sync += [
                    left.eq(Mux(packet.inner, opposite(whole), opposite("reach"))),
                    before_last.eq(opposite(before)),
                    only.eq(opposite("only")),
                    alike.eq(first_wraps.replicate(len(alike))),
                    self.row.eq(Mux(packet.inner, opposite("start"), opposite("begin"))),
                ]
            with m.Else():
                m.d.sync += [
                    left.eq(left - 1),
                    *(
                        alike[number].eq(only | (piece == before_last[number * PIECE :][:PIECE]))
                        for number, piece in enumerate(pieces)
                    ),
                    self.row.eq(Mux(wraps, 0, self.row + 1)),
                ]

        # Of a packet that comes up, also whether it has just one row, or two, is known before.
        own = self.arriving
        starts = goes & fresh & packet.tuple
        m.d.comb += own.eq(Cat(starts & ~packet.side, starts & packet.side))
        behind, moves, one_row, two_rows = self.i.behind, self.i.ready, Signal(), Signal()
        # A tuple that is stored right now may open another row, which `reach` does not know yet.
        opened = Mux(behind.side, own[0], own[1])
        m.d.comb += [
            one_row.eq(opposite("only", behind) | (opposite("sole", behind) & ~opened)),
            two_rows.eq(opposite(few, behind) | (opposite("pair", behind) & ~opened)),
        ]
        m.d.sync += goes.eq(self.i.coming & ~self.hold)
        # Written so that two levels of logic do: nothing of the operator needs more, and the mapper
        # makes all paths as long as the longest.
        soon_next = behind.flush | Mux(behind.inner, opposite("only", behind), two_rows)
        soon_first = Mux(packet.inner, opposite(double), opposite("triple"))
        nearly = goes & ~fresh & (left[:4] == 3)
        soon_later = (nearly & (left[4:] == 0)) | (soon & ~goes)
        m.d.sync += soon.eq(Mux(moves, soon_next, Mux(goes & fresh, soon_first, soon_later)))
        with m.If(moves):
            m.d.sync += [
                fresh.eq(1),
                ends.eq(~behind.flush & (~behind.tuple | (~behind.inner & one_row))),
            ]
        with m.Elif(goes):
            m.d.sync += [fresh.eq(0), ends.eq(soon)]

        m.d.sync += [
            self.packet.eq(packet),
            self.step.eq(goes),
            self.first.eq(fresh),
            self.ends.eq(ends),
            self.arrives.eq(own),
            self.clear.eq(goes & fresh & packet.flush),
        ]
        return m
