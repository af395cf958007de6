# amaranth: UnusedElaboratable=no
"""The checks must be able to fail: designs that break a rule on purpose."""

from functools import partial

import pytest
from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tests.hw.bench import collect, feed, record, simulate, stream_ports

BYTES = stream.Signature(8)


class PriorityMux(wiring.Component):
    """Wrong: a late arrival on ``a`` pushes the offer of ``b`` aside."""

    a: In(BYTES)
    b: In(BYTES)
    o: Out(BYTES)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.a.valid):
            wiring.connect(m, wiring.flipped(self.a), wiring.flipped(self.o))
        with m.Else():
            wiring.connect(m, wiring.flipped(self.b), wiring.flipped(self.o))
        return m


class Fickle(wiring.Component):
    """Wrong: an offer lasts a cycle, taken or not."""

    o: Out(BYTES)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.payload.eq(5)
        m.d.sync += self.o.valid.eq(~self.o.valid)
        return m


class Shy(wiring.Component):
    """Wrong: nothing is offered until somebody is ready to take it."""

    i: In(BYTES)
    o: Out(BYTES)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.o.valid.eq(self.i.valid & self.o.ready),
            self.o.payload.eq(self.i.payload),
            self.i.ready.eq(self.o.ready),
        ]
        return m


class Chameleon(Shy):
    """Wrong: what is offered depends on whether it is taken."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += [
            self.o.valid.eq(self.i.valid),
            self.o.payload.eq(self.i.payload + self.o.ready),
        ]
        return m


class Wire(Shy):
    """Right, and purely combinational."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.o.valid.eq(self.i.valid)
        return m


class Nested(wiring.Component):
    bus: Out(wiring.Signature({"request": Out(BYTES), "reply": In(BYTES).array(2)}))
    level: Out(4)
    o: Out(BYTES).array(2, 1)

    def elaborate(self, platform):
        return Module()


def test_an_edited_offer_is_reported():
    dut = PriorityMux()
    with pytest.raises(AssertionError, match=r"^o: 1 became 2 during a stall"):
        simulate(
            dut,
            partial(feed, port=dut.b, payloads=[1]),
            partial(feed, port=dut.a, payloads=[2], idle=[3]),
            partial(collect, port=dut.o, count=2, into=[], stall=[8]),
        )


def test_a_withdrawn_offer_is_reported():
    dut = Fickle()
    with pytest.raises(AssertionError, match=r"^o: 5 was withdrawn before it was accepted"):
        simulate(dut, partial(collect, port=dut.o, count=1, into=[], stall=[9]))


def test_an_offer_withdrawn_by_a_bench_is_reported_too():
    dut = Wire()

    async def withdraw(ctx):
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        await ctx.tick()
        await ctx.tick()

    with pytest.raises(AssertionError, match=r"^i: 0 was withdrawn"):
        simulate(dut, withdraw)


def test_valid_that_waits_for_ready_is_reported():
    dut = Shy()
    with pytest.raises(AssertionError, match=r"^o: offers None without ready and 7 with it"):
        simulate(
            dut,
            partial(feed, port=dut.i, payloads=[7]),
            partial(collect, port=dut.o, count=1, into=[]),
        )


def test_a_payload_that_depends_on_ready_is_reported():
    dut = Chameleon()
    with pytest.raises(AssertionError, match=r"^o: offers 7 without ready and 8 with it"):
        simulate(
            dut,
            partial(feed, port=dut.i, payloads=[7]),
            partial(collect, port=dut.o, count=1, into=[]),
        )


def test_a_dead_simulation_is_ended():
    dut = Wire()
    with pytest.raises(TimeoutError, match="still running after 50 cycles"):
        simulate(dut, partial(collect, port=dut.o, count=1, into=[]), limit=50)


def test_probing_disturbs_nothing():
    dut = Wire()
    received, transfers = [], []
    cycles = simulate(
        dut,
        partial(feed, port=dut.i, payloads=range(4), idle=[0, 2]),
        partial(collect, port=dut.o, count=4, into=received, stall=[1, 0, 0, 3]),
        watch=[partial(record, port=dut.o, into=transfers)],
    )
    assert received == [0, 1, 2, 3]
    assert transfers == [(1, 0), (4, 1), (5, 2), (9, 3)]
    assert cycles == 10


def test_every_stream_of_a_signature_is_found():
    ports = dict(stream_ports(Nested()))
    assert list(ports) == ["bus.request", "bus.reply[0]", "bus.reply[1]", "o[0][0]", "o[1][0]"]
    driven = {name: port.signature.members["valid"].flow for name, port in ports.items()}
    assert [name for name, flow in driven.items() if flow is wiring.In] == list(ports)[1:3]
