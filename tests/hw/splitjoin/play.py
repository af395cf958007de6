"""Run a SplitJoin operator in Amaranth's simulator."""

from functools import partial
from itertools import cycle

from amaranth.lib.wiring import Out

from tests.hw.bench import feed, record, simulate

__all__ = ["FLUSH", "STAR", "Set", "play"]

STAR = {"star": 1}
FLUSH = {"star": 1, "flush": 1}


class Set(dict):
    """Settings to be changed between two messages, after the star before has come out."""


def play(dut, settings, messages, *, stall=(), idle=(), limit=20_000, port=None, watch=()):
    """Send messages, of which the last is a star, and wait until all stars are answered.

    Returns
    -------
    epochs, entered, outputs
        Results (cycle and payload) between one answer and the next, without these; cycles at which
        messages were taken; and outputs at the end, those of selected cores as lists.
    """
    epochs, entered, left, outputs = [[]], [], [], {}
    ports = [dut.o_r, dut.o_s] if dut.separate else [dut.o]
    port = port or ports[0]
    stars = sum(one.get("star", 0) for one in messages if not isinstance(one, Set))

    async def drive(ctx):
        for name, value in settings.items():
            ctx.set(getattr(dut, name), value)
        for _ in range(10):
            await ctx.tick()
        sent, pauses = 0, iter(idle)
        for message in messages:
            if isinstance(message, Set):
                if message.pop("wait", True):
                    while len(epochs) <= sent:
                        await ctx.tick()
                for name, value in message.items():
                    ctx.set(getattr(dut, name), value)
                continue
            await feed(ctx, dut.i, [message], [next(pauses, 0)])
            sent += message.get("star", 0)

    async def drain(ctx):
        pauses = cycle(stall or (0,))
        while len(epochs) <= stars:
            for _ in range(next(pauses)):
                await ctx.tick()
            for one in ports:
                ctx.set(one.ready, 1)
            *_, valid, payload = await ctx.tick().sample(port.valid, port.payload)
            for one in ports:
                ctx.set(one.ready, 0)
            if not valid:
                continue
            if payload.sync:
                epochs.append([])
            else:
                epochs[-1].append(payload)
        for name, member in dut.signature.members.items():
            if member.is_port and member.flow is Out:
                outputs[name] = ctx.get(getattr(dut, name))
        for name in ("comparisons", "busy", "peak", "unstored_r", "unstored_s"):
            outputs[name] = []
        for core in range(dut.cores):
            ctx.set(dut.selected, core)
            for _ in range(8):
                await ctx.tick()
            for name in ("comparisons", "busy", "peak", "unstored_r", "unstored_s"):
                outputs[name].append(ctx.get(getattr(dut, name)))

    simulate(
        dut,
        drive,
        drain,
        watch=[
            partial(record, port=dut.i, into=entered),
            partial(record, port=port, into=left),
            *watch,
        ],
        limit=limit,
    )
    outputs["left"] = left
    return epochs[:-1], [cycle for cycle, _ in entered], outputs
