"""From a probe with several matching partners to one result after another."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from eddyline_hw.layouts import part_layout, result_layout

__all__ = ["HitSerializer", "hits_layout"]


def hits_layout(plan, lanes, carried=()):
    """Return a probe's part of the results, and the parts of the lanes that match it.

    With ``star`` set it is a punctuation instead.
    """
    part = part_layout(plan, carried)["r"].shape
    return data.StructLayout(
        {
            "star": 1,
            "side": 1,
            "probe": part,
            "hits": lanes,
            "parts": data.ArrayLayout(part, lanes),
        }
    )


class HitSerializer(wiring.Component):
    """Turn the hits of a probe into results, lowest lane first.

    One result per cycle without a gap between one probe's last and the next one's first. An
    input without hits is dropped; a star passes through in its place.

    Parameters
    ----------
    plan : Plan
        Gives the layouts.
    lanes : int
        Partners that may match at once.
    carried : iterable of str
        Words of R that come along in the results.

    Members
    -------
    i : ``In(stream.Signature(hits_layout(plan, lanes, carried)))``
        Rows with their hits.
    room : ``In(1)``
        Whoever takes the results can take another one. It cannot be stalled otherwise: wide
        registers that wait for a ``ready`` would make a long path.
    valid, result : Out
        A result, a cycle after there was room.
    """

    def __init__(self, plan, *, lanes, carried=()):
        self.lanes = lanes
        self.carried = tuple(carried)
        super().__init__(
            {
                "i": In(stream.Signature(hits_layout(plan, lanes, carried))),
                "room": In(1),
                "valid": Out(1),
                "result": Out(result_layout(plan, carried)),
            }
        )

    def elaborate(self, platform):
        m = Module()

        current = Signal.like(self.i.payload, reset_less=True)
        left = Signal(self.lanes)  # lanes of `current` that are still to be sent
        rest = Signal(self.lanes)
        m.d.comb += rest.eq(left & (left - 1))
        partner = Signal.like(current.probe)
        for lane in range(self.lanes):
            lowest = left[lane] & (left[:lane] == 0)
            with m.If(lowest):
                m.d.comb += partner.eq(current.parts[lane])

        m.d.comb += self.i.ready.eq(self.room & (rest == 0))
        with m.If(self.room):
            m.d.sync += left.eq(rest)
            with m.If(rest == 0):
                m.d.sync += current.eq(self.i.payload)
                with m.If(self.i.valid):
                    m.d.sync += left.eq(Mux(self.i.p.star, 1, self.i.p.hits))
        m.d.sync += [
            self.valid.eq(self.room & (left != 0)),
            self.result.star.eq(current.star),
            self.result.r_id.eq(Mux(current.side, partner.id, current.probe.id)),
            self.result.s_id.eq(Mux(current.side, current.probe.id, partner.id)),
        ]
        for name in self.carried:
            word = Mux(current.side, partner[name], current.probe[name])
            m.d.sync += self.result[name].eq(word)
        return m
