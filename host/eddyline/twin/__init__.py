"""Handshake join in software: models of both chains, and the same on worker processes."""

from eddyline.twin.dispatcher import HandshakeTwin

__all__ = ["HandshakeTwin"]
