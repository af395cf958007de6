"""Combiner: both sides' results come in the order of the records, for all time, by induction.

Over five cycles: as many as an item is under way, and one. Pairs are numbered.
"""

import pytest
from amaranth import Assert, Assume, Cat, Mux, Signal
from amaranth.lib import data

from eddyline_hw.splitjoin import combiner
from tests.formal.foretell import later, offer
from tests.formal.prove import bench, check
from tests.formal.tags import count
from tests.sim.mutants.mutant import Patch

BITS = 3
TAG = {"of_s": 1, "number": BITS}
PAIR = data.StructLayout(TAG)
JOINED = data.StructLayout({"star": 1, "sync": 1, "final": 1, "side": 1, **TAG})
MODULE = "eddyline_hw.splitjoin.combiner"


def claim(monkeypatch, module=combiner, *, fair=True):
    """Return a module that claims it, and its free inputs."""
    monkeypatch.setattr(module, "pair_layout", lambda *_: PAIR)
    monkeypatch.setattr(module, "joined_layout", lambda *_: JOINED)
    dut = module.Combiner(None)
    m, free = bench(dut)
    for port, name in [(dut.i[0], "r"), (dut.i[1], "s")]:
        offer(m, port, name, clears=("star", "result", "final"))
        for is_there, item in ((port.valid, port.payload), (port.coming, port.ahead)):
            m.d.comb += Assume(item.star | ~item.final)
            m.d.comb += Assume(~is_there | (item.result == ~item.star))
    offer(m, dut.records, "records", clears=("both", "r", "s"))
    for is_there, item in (
        (dut.records.valid, dut.records.payload),
        (dut.records.coming, dut.records.ahead),
    ):
        m.d.comb += Assume(~is_there | (item.both + item.r + item.s == 1))

    record = dut.records.payload
    ready = Cat(port.valid & port.ready for port in dut.i)
    stars = Cat(port.valid & port.payload.star for port in dut.i)
    others = Cat(port.valid & ~port.payload.star for port in dut.i)
    finals = Cat(port.valid & port.payload.star & port.payload.final for port in dut.i)
    own = ready & Cat(record.r, record.s)
    had_room = later(m, dut.room, 1, "room")
    ends = Mux(record.both, ready.all(), (own & finals).any())
    m.d.comb += [
        # Only the record's side is taken from, or what is before the stars of both, or these.
        Assert(~ready.any() | (dut.records.valid & had_room)),
        Assert((ready & ~(stars | others)) == 0),
        Assert(record.both | (ready == own)),
        Assert(~record.both | ready.all() | ((ready & stars) == 0)),
        Assert(~ready.all() | (record.both & stars.all())),
        Assert((dut.records.valid & dut.records.ready) == ends),
    ]
    _hurry(m, dut, had_room, ready, stars, others)
    _leave(m, dut, ready)
    if fair:
        _share(m, dut, ready, others)
    return m, free


def _hurry(m, dut, had_room, ready, stars, others):
    """Claim that no cycle with room is wasted."""
    record = dut.records.payload
    some = Mux(
        record.both,
        others.any() | stars.all(),
        ((stars | others) & Cat(record.r, record.s)).any(),
    )
    m.d.comb += Assert(~(had_room & dut.records.valid & some) | ready.any())


def _share(m, dut, ready, others):
    """Claim that in a group nobody waits for two others."""
    for side in range(2):
        passed = Signal(2, name=f"passed{side}")
        waits = dut.records.valid & dut.records.payload.both & others[side] & ~ready[side]
        m.d.sync += passed.eq(Mux(waits, passed + ready[1 - side], 0))
        m.d.comb += Assert(passed < 2)


def _leave(m, dut, ready):
    """Claim that each item that was taken leaves with its own pair, but for hidden stars."""
    last = dut.flight - 1
    both = later(m, ready.all(), last, "both")
    hidden = later(m, ready.all() & dut.i[0].payload.hidden, last, "hidden")
    m.d.comb += Assert(~dut.push | later(m, dut.room, dut.flight, "sent"))
    m.d.comb += Assert(~(dut.push & dut.joined.star & both) | ~dut.joined.of_s)
    for side, port in enumerate(dut.i):
        entered = count(m, ready[side], f"entered{side}", BITS)
        m.d.comb += [
            Assume(dut.pairs[side].of_s == side),
            Assume(dut.pairs[side].number == later(m, entered, 2, f"number{side}")),
        ]
        mine = dut.push & (dut.joined.of_s == side)
        left = count(m, mine | both, f"left{side}", BITS)
        m.d.comb += Assert(~mine | (dut.joined.number == left))
        under_way = sum(
            later(m, ready[side], cycles, f"way{side}_{cycles}") for cycles in range(1, last + 1)
        )
        m.d.comb += Assert((left + under_way)[:BITS] == entered)
        # What steers comes along; a result is of the side of its stream.
        item = later(m, port.payload, last, f"item{side}")
        item = port.payload.shape()(item)
        m.d.comb += [
            Assert(~mine | (dut.joined[name] == item[name])) for name in ("star", "sync", "final")
        ]
        m.d.comb += Assert(~mine | (dut.joined.side == Mux(item.star, item.side, side)))
    m.d.comb += Assert(~hidden | ~dut.push)


def test_results_come_in_the_order_of_the_records(monkeypatch):
    m, free = claim(monkeypatch, fair=False)
    check(m, free, depth=8, induction=5)


def test_nobody_waits_for_two_others(monkeypatch):
    """Sixteen cycles from reset."""
    m, free = claim(monkeypatch)
    check(m, free, depth=16)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # a group ends with the first star
        ("(merges & stars.all())", "(merges & stars.any())"),
        # a record ends with any star
        ("finals[side].eq(port.ahead.final)", "finals[side].eq(stars[side])"),
        # nobody knows who came last
        ("was_r = Mux(taken.any(), taken[0], after_r)", "was_r = 0"),
        # both come at once
        ("(merges & head & ~blocked)", "(merges & head)"),
        # nobody waits for room
        ("room = self.room", "room = 1"),
        # the pair is of the item behind
        ("of_s.eq(from_s)", "of_s.eq(~taken[0])"),
        # hidden stars come out
        ("taken.any() & ~(taken.all() & shown[0].hidden)", "taken.any()"),
        # results have the side that their flags say
        ("Mux(waiting.star, waiting.side, of_s)", "waiting.side"),
    ],
)
def test_the_claims_can_fail(monkeypatch, old, new):
    m, free = claim(monkeypatch, Patch(MODULE, old, new).load())
    with pytest.raises(AssertionError, match=r"test_combiner\.py.* does not hold"):
        check(m, free, depth=10)
