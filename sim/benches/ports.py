"""What a bench has to know about a component's ports, as JSON can carry it."""

from dataclasses import asdict, dataclass

__all__ = ["Payload", "Port", "describe"]


@dataclass(frozen=True)
class Payload:
    """The layout of a payload: one flat vector in Verilog, named fields in a bench.

    A payload without ``fields`` is a plain integer; otherwise it is a dictionary with a value per
    field. Members of a union are all there when a payload is decoded, and one is enough to encode
    it.

    Parameters
    ----------
    width : int
        Bits of the vector.
    fields : dict
        Name to ``[offset, payload]``, the payload again in this form.
    """

    width: int
    fields: dict

    @classmethod
    def of(cls, shape):
        """Take the layout from an Amaranth shape."""
        from amaranth.hdl import Shape
        from amaranth.lib import data

        fields = {}
        if isinstance(shape, data.Layout):
            fields = {str(key): [field.offset, cls.of(field.shape)] for key, field in shape}
        return cls(Shape.cast(shape).width, fields)

    @classmethod
    def from_json(cls, content):
        fields = {
            name: [offset, cls.from_json(inner)]
            for name, (offset, inner) in content["fields"].items()
        }
        return cls(content["width"], fields)

    def encode(self, value):
        """Return ``value`` as bits; fields that are left out are zero."""
        if isinstance(value, int):
            if not 0 <= value < 1 << max(self.width, 1):
                raise ValueError(f"{value} does not fit into {self.width} bits")
            return value
        bits = 0
        for name, inner in value.items():
            offset, payload = self.fields[name]
            bits |= payload.encode(inner) << offset
        return bits

    def decode(self, bits):
        """Return what ``encode`` was given."""
        bits &= (1 << self.width) - 1
        if not self.fields:
            return bits
        return {name: inner.decode(bits >> at) for name, (at, inner) in self.fields.items()}


@dataclass(frozen=True)
class Port:
    """One stream of a component.

    Parameters
    ----------
    flow : str
        ``in`` if the component consumes the stream, ``out`` if it produces it.
    payload : Payload
        Layout of the payload.
    signals : list of str
        Which of ``valid``, ``ready`` and ``payload`` exist: a constant has no port in Verilog.
    """

    flow: str
    payload: Payload
    signals: list

    @classmethod
    def from_json(cls, content):
        return cls(content["flow"], Payload.from_json(content["payload"]), content["signals"])


def describe(component):
    """Return the ports of ``component`` by their names in Verilog, for JSON.

    ``streams`` are described as ``Port`` under the prefix of their signals, all other ports as
    ``Payload`` under ``signals``.
    """
    from amaranth.lib import stream, wiring

    streams, signals = {}, {}

    def visit(name, member, flow):
        flow = member.flow if flow == wiring.Out else member.flow.flip()
        for index in _indices(member.dimensions):
            path = "__".join([name, *map(str, index)])
            if member.is_port:
                signals[path] = Payload.of(member.shape)
                continue
            # An input holds a flipped signature; the unflipped one says what it is.
            signature = member.signature
            if isinstance(signature, wiring.FlippedSignature):
                signature = signature.flip()
            if isinstance(signature, stream.Signature):
                streams[path] = _stream(signature, "in" if flow == wiring.In else "out")
                continue
            for inner, part in signature.members.items():
                visit(f"{path}__{inner}", part, flow)

    for name, member in component.signature.members.items():
        visit(name, member, wiring.Out)
    return {
        "streams": {name: asdict(port) for name, port in streams.items()},
        "signals": {name: asdict(payload) for name, payload in signals.items()},
    }


def _stream(signature, flow):
    payload = Payload.of(signature.members["payload"].shape)
    present = {
        "payload": payload.width > 0,
        "valid": not signature.always_valid,
        "ready": not signature.always_ready,
    }
    return Port(flow, payload, [signal for signal, there in present.items() if there])


def _indices(dimensions):
    if not dimensions:
        return [()]
    return [(first, *rest) for first in range(dimensions[0]) for rest in _indices(dimensions[1:])]
