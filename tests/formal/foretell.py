"""Streams whose next offer is known, in a proof: what may come in, and what has to come out."""

from amaranth import Assert, Assume, Signal, Value

__all__ = ["later", "offer", "promise"]


def later(m, value, cycles, name):
    """Return ``value`` as it was ``cycles`` ago; zero in the first ones."""
    for cycle in range(cycles):
        register = Signal.like(Value.cast(value), name=f"{name}_{cycle + 1}", init=0)
        m.d.sync += register.eq(value)
        value = register
    return value


def rules(m, port, name, clears):
    """Return what makes a port a foretold stream, of which some bits are 0 without an offer."""
    coming = later(m, port.coming, 1, f"{name}_coming")
    ahead = later(m, port.ahead, 1, f"{name}_ahead")
    payload = Value.cast(port.payload)
    stays = port.coming & (Value.cast(port.ahead) == payload)
    cleared = [
        is_there | ~shown[bit]
        for is_there, shown in ((port.valid, port.payload), (port.coming, port.ahead))
        for bit in clears
    ]
    return [
        *cleared,
        port.valid == coming,
        ~port.valid | (payload == ahead),
        ~port.valid | port.ready | stays,
        (port.valid & ~port.ready) | (Value.cast(port.ahead) == Value.cast(port.behind)),
    ]


def offer(m, port, name, *, clears=()):
    """Assume that an input is foretold right, and holds its offers; assert that it is asked for."""
    m.d.comb += [Assume(rule) for rule in rules(m, port, name, clears)]
    m.d.comb += Assert(port.valid | port.ready)


def promise(m, port, name, *, clears=()):
    """Assert of an output what an input may assume, and the other way round."""
    m.d.comb += [Assert(rule) for rule in rules(m, port, name, clears)]
    m.d.comb += Assume(port.valid | port.ready)
