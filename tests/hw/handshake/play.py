"""Run a chain in Amaranth's simulator."""

from functools import partial

from amaranth.lib.wiring import Out

from tests.hw.bench import collect, feed, record, simulate

__all__ = ["FLUSH", "STAR", "play"]

STAR = {"star": 1}
FLUSH = {"star": 1, "flush": 1}


def play(dut, settings, messages, *, stall=(), idle=(), ready=True, also=None, limit=20_000):
    """Send messages, of which the last is a star, and wait until every core has answered all stars.

    Returns
    -------
    pairs, entered, outputs
        Pairs of ids by core, cycles at which messages were taken, and the counters at the end,
        those of cores added up. Whole results are added to ``also``, if it is given.
    """
    stars = sum(message.get("star", 0) for message in messages)
    answers = [[] for _ in dut.o]
    entered, outputs = [], {}

    async def set_up(ctx):
        for name, value in settings.items():
            ctx.set(getattr(dut, name), value)
        for _ in range(4):
            await ctx.tick()
        await feed(ctx, dut.i, messages, idle)

    async def drain(ctx, port, into):
        if not ready:
            for _ in range(limit // 4):
                await ctx.tick()
        seen = 0
        while seen < stars:
            await collect(ctx, port, 1, into, stall[:1] if len(into) % 2 else ())
            seen += into[-1].star
        if port is not dut.o[0]:
            return
        for name, member in dut.signature.members.items():
            if member.is_port and member.flow is Out:
                outputs[name] = ctx.get(getattr(dut, name))
        outputs["dropped_results"] = 0
        for core in range(dut.cores):
            ctx.set(dut.selected, core)
            for _ in range(8):
                await ctx.tick()
            outputs["dropped_results"] += ctx.get(dut.dropped_results)

    simulate(
        dut,
        set_up,
        *(partial(drain, port=port, into=into) for port, into in zip(dut.o, answers, strict=True)),
        watch=[partial(record, port=dut.i, into=entered)],
        limit=limit,
    )
    if also is not None:
        also += [one for core in answers for one in core if not one.star]
    pairs = [[(one.r_id, one.s_id) for one in core if not one.star] for core in answers]
    return pairs, [cycle for cycle, _ in entered], outputs
