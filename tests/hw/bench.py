"""Stream drivers and checks shared by the gateware tests."""

from functools import partial
from itertools import chain, product, repeat

from amaranth import ClockDomain, Module
from amaranth.lib import stream, wiring
from amaranth.sim import Simulator

__all__ = ["collect", "feed", "guard", "record", "simulate", "stream_ports", "watchdog"]

# Waits are spelled as plain loops: a bench abandoned inside `tick().until()` or
# `tick().repeat()`, because another one failed, dies noisily on Amaranth 0.5.


async def feed(ctx, port, payloads, idle=(), domain="sync"):
    """Offer every payload, pausing first for the next number of cycles in ``idle``."""
    for payload, cycles in zip(payloads, chain(idle, repeat(0)), strict=False):
        for _ in range(cycles):
            await ctx.tick(domain)
        ctx.set(port.payload, payload)
        ctx.set(port.valid, 1)
        accepted = False
        while not accepted:
            *_, accepted = await ctx.tick(domain).sample(port.ready)
        ctx.set(port.valid, 0)


async def collect(ctx, port, count, into, stall=(), domain="sync"):
    """Accept ``count`` payloads, pausing first for the next number of cycles in ``stall``."""
    for _, cycles in zip(range(count), chain(stall, repeat(0)), strict=False):
        for _ in range(cycles):
            await ctx.tick(domain)
        ctx.set(port.ready, 1)
        offered = False
        while not offered:
            *_, offered, payload = await ctx.tick(domain).sample(port.valid, port.payload)
        ctx.set(port.ready, 0)
        into.append(payload)


async def record(ctx, port, into, domain="sync"):
    """Note the cycle and the payload of every transfer; drives nothing, never ends."""
    cycle = 0
    while True:
        *_, valid, ready, payload = await ctx.tick(domain).sample(
            port.valid, port.ready, port.payload
        )
        if valid and ready:
            into.append((cycle, payload))
        cycle += 1


async def guard(ctx, port, name="stream", domain="sync", probe=False):
    """Fail if a producer breaks the rules of streams.

    An offer must be held unchanged until it is taken. With ``probe``, which needs a ``ready``
    that nothing but benches drives, ``valid`` and ``payload`` must not depend on ``ready`` within
    a cycle either: a producer that waits for a consumer which waits for it is a deadlock.
    """
    offer = None
    await ctx.delay(0)  # a failure before every bench has started would bury itself in warnings
    while True:
        if probe:
            probe_offer(ctx, port, name)
        *_, valid, ready, payload = await ctx.tick(domain).sample(
            port.valid, port.ready, port.payload
        )
        if offer is not None:
            assert valid, f"{name}: {offer!r} was withdrawn before it was accepted"
            assert payload == offer, f"{name}: {offer!r} became {payload!r} during a stall"
        offer = payload if valid and not ready else None


def probe_offer(ctx, port, name):
    ready = ctx.get(port.ready)
    offers = []
    for level in (0, 1):
        ctx.set(port.ready, level)
        valid = ctx.get(port.valid)
        offers.append(ctx.get(port.payload) if valid else None)
    ctx.set(port.ready, ready)
    stalled, taken = offers
    assert stalled == taken, f"{name}: offers {stalled!r} without ready and {taken!r} with it"


async def watchdog(ctx, limit, domain="sync"):
    """End a simulation that does not end."""
    for _ in range(limit):
        await ctx.tick(domain)
    raise TimeoutError(f"simulation still running after {limit} cycles")


def stream_ports(interface, prefix=""):
    """Yield name and port of every stream in the signature of a component, arrays included."""
    for name, member in interface.signature.members.items():
        if member.is_port:
            continue
        for place in product(*map(range, member.dimensions)):
            port = getattr(interface, name)
            for index in place:
                port = port[index]
            path = prefix + "".join([name, *(f"[{index}]" for index in place)])
            if isinstance(member.signature, stream.Signature):
                yield path, port
            else:
                yield from stream_ports(port, f"{path}.")


def simulate(dut, *benches, watch=(), clocks=None, domains=None, limit=2_000):
    """Run until every bench returns, guarding every stream port of ``dut`` all along.

    Parameters
    ----------
    dut : Component
        The design. Its outputs' ``ready`` must be driven by benches or by nobody.
    benches : coroutine functions
        What drives the design.
    watch : iterable of coroutine functions
        Observers such as ``record``, which do not keep the simulation alive.
    clocks : dict of str to float, optional
        Clock periods in seconds by domain; only ``sync`` if left out.
    domains : dict of str to str, optional
        Domain of a port by its name (``"o"``, or ``"o[1]"`` in an array), if it is not ``sync``.
    limit : int
        Cycles of the first clock after which the run is given up.

    Returns
    -------
    int
        Cycles of the first clock until the last bench returned.
    """
    clocks = clocks or {"sync": 1e-6}
    domains = domains or {}
    first = next(iter(clocks))
    cycles = 0

    async def count(ctx):
        nonlocal cycles
        while True:
            await ctx.tick(first)
            cycles += 1

    m = Module()
    for domain in clocks:  # exist even if `dut` is purely combinational
        m.domains += ClockDomain(domain)
    m.submodules.dut = dut

    sim = Simulator(m)
    for domain, period in clocks.items():
        sim.add_clock(period, domain=domain)
    sim.add_testbench(count, background=True)
    for bench in benches:
        sim.add_testbench(bench)
    for observer in watch:
        sim.add_testbench(observer, background=True)
    # After the drivers, so that the probe sees what they have set in this cycle.
    for name, port in stream_ports(dut):
        produced = port.signature.members["valid"].flow is wiring.Out
        probe = produced and not port.signature.always_ready
        domain = domains.get(name, domains.get(name.split("[")[0], "sync"))
        sim.add_testbench(
            partial(guard, port=port, name=name, domain=domain, probe=probe), background=True
        )
    sim.add_testbench(partial(watchdog, limit=limit, domain=first), background=True)
    sim.run()
    return cycles
